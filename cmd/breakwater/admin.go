package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"breakwater/internal/auth"
	"breakwater/internal/pglocal"
	"breakwater/internal/store"
	"breakwater/migrations"
)

// withDB runs a verb that works on the database itself: the DSN given, or the
// private cluster, which is shared with a serve that runs and stopped if not.
// Only a verb that may make the cluster does: to look must leave nothing behind.
func withDB(ctx context.Context, set settings, mayMake bool, do func(*pgxpool.Pool) error) error {
	dsn := set.db
	if dsn == "auto" {
		dir := filepath.Join(set.stateDir, "pg")
		if !mayMake && !clusterAt(dir) {
			return exit(exitUnknown, fmt.Errorf("no breakwater database in %s (the demo keeps its own in %s)",
				set.stateDir, filepath.Join(set.stateDir, "demo")))
		}
		pg, err := pglocal.Start(ctx, pglocal.Config{Dir: dir})
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
	err = do(db)
	if _, known := errors.AsType[*exitError](err); known || err == nil {
		return err
	}
	if _, away := errors.AsType[*pgconn.ConnectError](err); away {
		return exit(exitUnknown, fmt.Errorf("the database cannot be reached: %w", err))
	}
	if noSchema(err) {
		return exit(exitUnknown, fmt.Errorf("the database is not migrated (breakwater migrate does that): %w", err))
	}
	return exit(exitInternal, err)
}

// clusterAt reports whether a private cluster was made for dir. Root's may be in
// one of two other places, where PostgreSQL's own user can reach it.
func clusterAt(dir string) bool {
	places := clusterPlaces(dir)
	if os.Geteuid() != 0 {
		places = places[:1]
	}
	return slices.ContainsFunc(places, func(place string) bool {
		_, err := os.Lstat(filepath.Join(place, "data"))
		return err == nil
	})
}

// clusterPlaces are the places that pglocal may choose for dir, dir itself first.
func clusterPlaces(dir string) []string {
	if abs, err := filepath.Abs(dir); err == nil {
		dir = abs
	}
	sum := sha256.Sum256([]byte(dir))
	name := fmt.Sprintf("pg-%x", sum[:4])
	return []string{dir, filepath.Join(os.TempDir(), "breakwater-"+name), filepath.Join("/var/lib/breakwater", name)}
}

// noSchema reports whether err says that a table is not there (undefined_table).
func noSchema(err error) bool {
	pg, ok := errors.AsType[*pgconn.PgError](err)
	return ok && pg.Code == "42P01"
}

func newMigrate(io streams) *cobra.Command {
	var set settings
	cmd := &cobra.Command{
		Use: "migrate", Short: "bring the database's schema up to this binary",
		Example: "  breakwater migrate --db \"$DATABASE_URL\"", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return withDB(cmd.Context(), set, true, func(db *pgxpool.Pool) error {
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
		Long: "Makes a token, and the database too where there is none yet: the first token comes\n" +
			"before the first start. Exit code 1: the name was used before.",
		Example: "  breakwater token create ci --role pipeline --service order --expires 2160h", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			now := time.Now().UTC()
			t := auth.Token{Name: args[0], Role: auth.Role(role), Services: services, CreatedBy: localActor(), CreatedAt: now}
			if expires != 0 {
				t.ExpiresAt = now.Add(expires)
			}
			if _, err := auth.Issue(cmd.Context(), rules{}, t); err != nil {
				return exit(exitUsage, err)
			}
			return withDB(cmd.Context(), set, true, func(db *pgxpool.Pool) error {
				secret, err := auth.Issue(cmd.Context(), store.New(db), t)
				if noSchema(err) {
					if err := migrations.Up(cmd.Context(), db); err != nil {
						return err
					}
					secret, err = auth.Issue(cmd.Context(), store.New(db), t)
				}
				if errors.Is(err, auth.ErrTaken) {
					return exit(exitNo, err)
				}
				if err != nil {
					return err
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

// rules is a store that keeps nothing: what auth.Issue refuses over it was typed
// wrong, which is found before any database is opened or made.
type rules struct{ auth.Store }

func (rules) Audit(context.Context, auth.Entry) error            { return nil }
func (rules) AddToken(context.Context, auth.Token) (bool, error) { return true, nil }

func tokenLs(io streams) *cobra.Command {
	var set settings
	cmd := &cobra.Command{
		Use: "ls", Short: "list tokens, without secrets", Example: "  breakwater token ls", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return withDB(cmd.Context(), set, false, func(db *pgxpool.Pool) error {
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
			return withDB(cmd.Context(), set, false, func(db *pgxpool.Pool) error {
				err := auth.Revoke(cmd.Context(), store.New(db), localActor(), args[0], time.Now().UTC())
				if errors.Is(err, auth.ErrNoToken) {
					return exit(exitUnknown, err)
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
	cmd := &cobra.Command{Use: "audit", Short: "list the audit, prove its chain"}
	var set settings
	var contains string
	verify := &cobra.Command{
		Use: "verify", Short: "walk the audit's hash chain from its first row",
		Long: "Exit code 0: the chain holds, 1: a row was altered or is missing,\n" +
			"4: there is no database to look at.",
		Example: "  breakwater audit verify", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return withDB(cmd.Context(), set, false, func(db *pgxpool.Pool) error {
				done, err := auth.Verify(cmd.Context(), store.New(db))
				if _, broken := errors.AsType[*auth.BrokenError](err); broken {
					return exit(exitNo, err)
				}
				if err != nil {
					return err
				}
				if contains != "" {
					if held, err := auditHolds(cmd.Context(), store.New(db), contains); err != nil {
						return err
					} else if !held {
						return exit(exitNo, fmt.Errorf("no row has the hash %s: the audit was cut off before it", contains))
					}
				}
				_, err = fmt.Fprintf(io.out, "%d rows, unbroken; the last hash is %s\n", done.Rows, dash(done.Last))
				return err
			})
		},
	}
	set.stateFlags(verify.Flags())
	set.dbFlag(verify.Flags())
	verify.Flags().StringVar(&contains, "contains", "", "a hash that was noted elsewhere and must still be there, or the end was cut off")
	cmd.AddCommand(auditLs(io), verify)
	return cmd
}

// localActor is who works on the database from this machine.
func localActor() string {
	if u, err := user.Current(); err == nil {
		return "local:" + u.Username
	}
	return "local"
}
