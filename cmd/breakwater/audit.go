package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"breakwater/internal/auth"
	"breakwater/internal/store"
)

// auditPage is how many rows are read at a time.
const auditPage = 1000

// auditEach calls do for every row of the audit, in order, until it says stop.
func auditEach(ctx context.Context, l auth.Log, do func(auth.Row) (stop bool)) error {
	for after := int64(0); ; {
		rows, err := l.AuditRows(ctx, after, auditPage)
		if err != nil {
			return err
		}
		for _, r := range rows {
			if do(r) {
				return nil
			}
			after = r.Seq
		}
		if len(rows) < auditPage {
			return nil
		}
	}
}

// auditHolds reports whether a row with this hash is in the chain: a chain alone
// cannot show that its end was cut off, a hash that was noted elsewhere can.
func auditHolds(ctx context.Context, l auth.Log, hash string) (bool, error) {
	found := false
	err := auditEach(ctx, l, func(r auth.Row) bool { found = r.Hash == hash; return found })
	return found, err
}

func auditLs(io streams) *cobra.Command {
	var set settings
	var output, actor, action, object string
	var limit int
	cmd := &cobra.Command{
		Use: "ls", Short: "list the newest rows of the audit", Example: "  breakwater audit ls --action override --limit 20", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkOutput(output); err != nil {
				return err
			}
			if limit < 1 {
				return exit(exitUsage, fmt.Errorf("--limit: must be at least 1, got %d", limit))
			}
			return withDB(cmd.Context(), set, false, func(db *pgxpool.Pool) error {
				kept := []auth.Row{}
				err := auditEach(cmd.Context(), store.New(db), func(r auth.Row) bool {
					if (actor == "" || r.Actor == actor) && strings.HasPrefix(r.Action, action) && strings.Contains(r.Object, object) {
						if kept = append(kept, r); len(kept) > limit {
							kept = kept[1:]
						}
					}
					return false
				})
				if err != nil {
					return err
				}
				if output == "json" {
					return printJSON(io.out, kept)
				}
				var rows [][]string
				for _, r := range kept {
					rows = append(rows, []string{fmt.Sprint(r.Seq), shortTime(r.At), r.Actor, r.Action, r.Object, strings.Join(strings.Fields(r.Detail), " ")})
				}
				return table(io.out, []string{"ROW", "AT", "WHO", "WHAT", "ON", "DETAIL"}, rows)
			})
		},
	}
	set.stateFlags(cmd.Flags())
	set.dbFlag(cmd.Flags())
	f := cmd.Flags()
	f.StringVar(&actor, "actor", "", "only what this one did")
	f.StringVar(&action, "action", "", "only actions that begin so, as override or freeze.on")
	f.StringVar(&object, "object", "", "only on what contains this")
	f.IntVar(&limit, "limit", 50, "how many at most")
	f.StringVarP(&output, "output", "o", "table", "table or json")
	return cmd
}
