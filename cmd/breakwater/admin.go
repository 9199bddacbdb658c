package main

import (
	"context"
	"errors"
	"fmt"
	"os/user"
	"path/filepath"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"breakwater/internal/auth"
	"breakwater/internal/pglocal"
	"breakwater/internal/store"
	"breakwater/migrations"
)

// withDB runs a verb that works on the database itself: the DSN given, or the
// private cluster, which is shared with a serve that runs and stopped if not.
func withDB(ctx context.Context, set settings, do func(*pgxpool.Pool) error) error {
	dsn := set.db
	if dsn == "auto" {
		pg, err := pglocal.Start(ctx, pglocal.Config{Dir: filepath.Join(set.stateDir, "pg")})
		if err != nil {
			return exit(exitInternal, err)
		}
		defer func() { _ = pg.Stop() }() // leaves alone what another process owns
		dsn = pg.DSN()
	}
	db, err := pgxpool.New(ctx, dsn)
	if err != nil {
		return exit(exitUsage, fmt.Errorf("--db: %w", err))
	}
	defer db.Close()
	return fail(do(db))
}

func newMigrate(io streams) *cobra.Command {
	var set settings
	cmd := &cobra.Command{
		Use: "migrate", Short: "bring the database's schema up to this binary",
		Example: "  breakwater migrate --db \"$DATABASE_URL\"", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return withDB(cmd.Context(), set, func(db *pgxpool.Pool) error {
				if err := migrations.Up(cmd.Context(), db); err != nil {
					return err
				}
				_, err := fmt.Fprintln(io.out, "the schema is up to date")
				return err
			})
		},
	}
	set.stateFlags(cmd.Flags())
	set.dbFlag(cmd.Flags())
	return cmd
}

func newToken(io streams) *cobra.Command {
	cmd := &cobra.Command{Use: "token", Short: "make, list and revoke API tokens, on the database itself"}
	cmd.AddCommand(tokenCreate(io), tokenLs(io), tokenRevoke(io))
	return cmd
}

func tokenCreate(io streams) *cobra.Command {
	var set settings
	var role string
	var services []string
	var expires time.Duration
	cmd := &cobra.Command{
		Use: "create NAME", Short: "make a token and print its secret, this once",
		Example: "  breakwater token create ci --role pipeline --service order --expires 2160h", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return withDB(cmd.Context(), set, func(db *pgxpool.Pool) error {
				now := time.Now().UTC()
				t := auth.Token{Name: args[0], Role: auth.Role(role), Services: services, CreatedBy: localActor(), CreatedAt: now}
				if expires > 0 {
					t.ExpiresAt = now.Add(expires)
				}
				secret, err := auth.Issue(cmd.Context(), store.New(db), t)
				if err != nil {
					return exit(exitNo, err)
				}
				_, err = fmt.Fprintln(io.out, secret)
				return err
			})
		},
	}
	set.stateFlags(cmd.Flags())
	set.dbFlag(cmd.Flags())
	cmd.Flags().StringVar(&role, "role", "viewer", "viewer, operator, approver, admin, gateway or pipeline")
	cmd.Flags().StringSliceVar(&services, "service", nil, "limit the token to a service; may be repeated")
	cmd.Flags().DurationVar(&expires, "expires", 90*24*time.Hour, "how long it lives; 0: until it is revoked")
	return cmd
}

func tokenLs(io streams) *cobra.Command {
	var set settings
	cmd := &cobra.Command{
		Use: "ls", Short: "list tokens, without secrets", Example: "  breakwater token ls", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return withDB(cmd.Context(), set, func(db *pgxpool.Pool) error {
				tokens, err := store.New(db).Tokens(cmd.Context())
				if err != nil {
					return err
				}
				now := time.Now()
				var rows [][]string
				for _, t := range tokens {
					state := "live"
					if !t.Live(now) {
						state = "ended"
					}
					rows = append(rows, []string{t.Name, string(t.Role), dash(strings.Join(t.Services, ",")), state, shortTime(t.ExpiresAt), t.CreatedBy})
				}
				return table(io.out, []string{"NAME", "ROLE", "SERVICES", "STATE", "EXPIRES", "MADE BY"}, rows)
			})
		},
	}
	set.stateFlags(cmd.Flags())
	set.dbFlag(cmd.Flags())
	return cmd
}

func tokenRevoke(io streams) *cobra.Command {
	var set settings
	cmd := &cobra.Command{
		Use: "revoke NAME", Short: "end a token", Example: "  breakwater token revoke ci", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return withDB(cmd.Context(), set, func(db *pgxpool.Pool) error {
				err := auth.Revoke(cmd.Context(), store.New(db), localActor(), args[0], time.Now().UTC())
				if errors.Is(err, auth.ErrNoToken) {
					return exit(exitNo, err)
				}
				if err != nil {
					return err
				}
				_, err = fmt.Fprintf(io.out, "%s is revoked\n", args[0])
				return err
			})
		},
	}
	set.stateFlags(cmd.Flags())
	set.dbFlag(cmd.Flags())
	return cmd
}

func newAudit(io streams) *cobra.Command {
	cmd := &cobra.Command{Use: "audit", Short: "prove the audit's chain"}
	var set settings
	verify := &cobra.Command{
		Use: "verify", Short: "walk the audit's hash chain from its first row",
		Long:    "Exit code 0: the chain holds, 1: a row was altered or is missing.",
		Example: "  breakwater audit verify", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return withDB(cmd.Context(), set, func(db *pgxpool.Pool) error {
				done, err := auth.Verify(cmd.Context(), store.New(db))
				if _, broken := errors.AsType[*auth.BrokenError](err); broken {
					return exit(exitNo, err)
				}
				if err != nil {
					return err
				}
				_, err = fmt.Fprintf(io.out, "%d rows, unbroken; the last hash is %s\n", done.Rows, dash(done.Last))
				return err
			})
		},
	}
	set.stateFlags(verify.Flags())
	set.dbFlag(verify.Flags())
	cmd.AddCommand(verify)
	return cmd
}

// localActor is who works on the database from this machine.
func localActor() string {
	if u, err := user.Current(); err == nil {
		return "local:" + u.Username
	}
	return "local"
}
