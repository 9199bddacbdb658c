package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"breakwater/internal/auth"
	"breakwater/internal/store"
	"breakwater/migrations"
)

func newUser(io streams) *cobra.Command {
	cmd := &cobra.Command{Use: "user", Short: "make, change, reset and disable people's accounts, on the database itself"}
	cmd.AddCommand(userCreate(io), userLs(io), userSet(io), userReset(io), userDisable(io, true), userDisable(io, false))
	return cmd
}

// withPeople runs a verb on the accounts of a database.
func withPeople(ctx context.Context, set settings, mayMake bool, do func(*auth.People) error) error {
	return withDB(ctx, set, mayMake, func(db *pgxpool.Pool) error {
		people, err := auth.NewPeople(auth.PeopleConfig{Store: store.New(db)})
		if err != nil {
			return err
		}
		err = do(people)
		if mayMake && noSchema(err) {
			if err := migrations.Up(ctx, db); err != nil {
				return err
			}
			err = do(people)
		}
		if _, isRule := errors.AsType[*auth.RuleError](err); isRule {
			return exit(exitUsage, err)
		}
		switch {
		case errors.Is(err, auth.ErrTaken), errors.Is(err, auth.ErrLastAdmin):
			return exit(exitNo, err)
		case errors.Is(err, auth.ErrNoUser):
			return exit(exitUnknown, err)
		}
		return err
	})
}

func userCreate(io streams) *cobra.Command {
	var set settings
	var role string
	var services []string
	cmd := &cobra.Command{
		Use: "create NAME", Short: "make an account and print its first password, this once",
		Long:    "The password must be changed at the first sign-in. Exit code 1: the name was used before,\nfor an account or a token.",
		Example: "  breakwater user create ann --role operator --service order", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			u := auth.User{Name: args[0], Role: auth.Role(role), Services: services}
			if err := u.Check(); err != nil {
				return exit(exitUsage, err)
			}
			return withPeople(cmd.Context(), set, true, func(people *auth.People) error {
				password, err := people.Create(cmd.Context(), localActor(), u)
				if err != nil {
					return err
				}
				_, err = fmt.Fprintln(io.out, password)
				return err
			})
		},
	}
	set.stateFlags(cmd.Flags())
	set.dbFlag(cmd.Flags())
	cmd.Flags().StringVar(&role, "role", "viewer", "viewer, operator, approver or admin")
	cmd.Flags().StringSliceVar(&services, "service", nil, "limit the account to a service; may be repeated")
	return cmd
}

func userLs(io streams) *cobra.Command {
	var set settings
	cmd := &cobra.Command{
		Use: "ls", Short: "list accounts, without passwords", Example: "  breakwater user ls", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return withPeople(cmd.Context(), set, false, func(people *auth.People) error {
				users, err := people.Users(cmd.Context())
				if err != nil {
					return err
				}
				var rows [][]string
				for _, u := range users {
					state, how := "live", "password"
					switch {
					case !u.Live():
						state = "disabled"
					case u.MustChange:
						state = "first password"
					}
					if u.Issuer != "" {
						how = u.Issuer
					}
					rows = append(rows, []string{u.Name, string(u.Role), dash(strings.Join(u.Services, ",")), state, how, shortTime(u.SignedInAt), u.CreatedBy})
				}
				return table(io.out, []string{"NAME", "ROLE", "SERVICES", "STATE", "SIGNS IN WITH", "LAST SIGNED IN", "MADE BY"}, rows)
			})
		},
	}
	set.stateFlags(cmd.Flags())
	set.dbFlag(cmd.Flags())
	return cmd
}

func userSet(io streams) *cobra.Command {
	var set settings
	var role string
	var services []string
	cmd := &cobra.Command{
		Use: "set NAME --role ROLE", Short: "give an account another role and other services",
		Long:    "Both are set: without --service the account is for all services. Exit code 1: nobody\ncould administer after it.",
		Example: "  breakwater user set ann --role approver", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return withPeople(cmd.Context(), set, false, func(people *auth.People) error {
				if err := people.Change(cmd.Context(), localActor(), args[0], auth.Role(role), services); err != nil {
					return err
				}
				_, err := fmt.Fprintf(io.out, "%s is %s\n", args[0], role)
				return err
			})
		},
	}
	set.stateFlags(cmd.Flags())
	set.dbFlag(cmd.Flags())
	cmd.Flags().StringVar(&role, "role", "", "viewer, operator, approver or admin")
	cmd.Flags().StringSliceVar(&services, "service", nil, "limit the account to a service; may be repeated")
	_ = cmd.MarkFlagRequired("role") // fails only for a flag that is not there
	return cmd
}

func userReset(io streams) *cobra.Command {
	var set settings
	var given bool
	cmd := &cobra.Command{
		Use: "reset NAME", Short: "give an account a new first password, print it, and sign it out everywhere",
		Long: "The password must be changed at the next sign-in. With --password-stdin the first line of\n" +
			"standard input is the password, and nothing is printed.",
		Example: "  breakwater user reset admin", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			wish := ""
			if given {
				line, err := bufio.NewReader(io.in).ReadString('\n')
				if wish = strings.TrimRight(line, "\r\n"); wish == "" {
					return exit(exitUsage, fmt.Errorf("--password-stdin: standard input must begin with the password: %w", err))
				}
			}
			return withPeople(cmd.Context(), set, false, func(people *auth.People) error {
				password, err := people.Reset(cmd.Context(), localActor(), args[0], wish)
				if err != nil || given {
					return err
				}
				_, err = fmt.Fprintln(io.out, password)
				return err
			})
		},
	}
	set.stateFlags(cmd.Flags())
	set.dbFlag(cmd.Flags())
	cmd.Flags().BoolVar(&given, "password-stdin", false, "take the password from standard input")
	return cmd
}

func userDisable(io streams, disable bool) *cobra.Command {
	var set settings
	word, short := "enable", "let a disabled account sign in again"
	if disable {
		word, short = "disable", "keep an account out, and sign it out everywhere"
	}
	cmd := &cobra.Command{
		Use: word + " NAME", Short: short, Example: "  breakwater user " + word + " ann", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return withPeople(cmd.Context(), set, false, func(people *auth.People) error {
				do := people.Enable
				if disable {
					do = people.Disable
				}
				if err := do(cmd.Context(), localActor(), args[0]); err != nil {
					return err
				}
				_, err := fmt.Fprintf(io.out, "%s is %sd\n", args[0], word)
				return err
			})
		},
	}
	set.stateFlags(cmd.Flags())
	set.dbFlag(cmd.Flags())
	return cmd
}
