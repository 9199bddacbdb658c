package freeze

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"breakwater/internal/auth"
	"breakwater/internal/reply"
	"breakwater/slo"
)

// DeployArchive lists deploys that are under way, and those that were.
type DeployArchive interface {
	Deploys(ctx context.Context, service string, since time.Time, limit int) ([]slo.Deploy, error)
}

// CapState is a cap on deploys with what it comes to now.
type CapState struct {
	Service string    `json:"service"`
	Env     string    `json:"env"`
	Policy  string    `json:"policy"`
	AtMost  int64     `json:"at_most"`
	Over    string    `json:"over"` // service, or policy: all services that it rules
	From    slo.Level `json:"from"` // the mildest state in which it holds
	Taken   int64     `json:"taken"`
	DryRun  bool      `json:"dry_run"`
	Text    string    `json:"text"`
}

// Deploying lists the deploys under way and those begun since an instant, the latest
// first, and the caps that hold now, of services that whoever ctx is about may see.
func (d *Desk) Deploying(ctx context.Context, archive DeployArchive, service string, since time.Time) ([]slo.Deploy, []CapState, error) {
	all, err := archive.Deploys(ctx, service, since, 1000)
	if err != nil {
		return nil, nil, err
	}
	covers := auth.From(ctx).Covers
	now, known := d.instant(), d.book.Known()
	live := known.Deploys
	if service == "" { // then all of them was just read
		live = all
	}
	live = Under(live, now)
	all = slices.DeleteFunc(all, func(x slo.Deploy) bool { return !covers(x.Service) })
	worst := map[place][]slo.Status{}
	for _, s := range d.source.Statuses() {
		if at := (place{s.Objective.Service, s.Env}); (service == "" || at.service == service) && covers(at.service) && at.env != "" {
			worst[at] = append(worst[at], s)
		}
	}
	caps := []CapState{}
	for at, set := range worst {
		s, _ := slo.Worst(set)
		for _, b := range known.Bounds(at.service, at.env, s.Level) {
			caps = append(caps, CapState{Service: at.service, Env: at.env, Policy: b.Policy, AtMost: b.AtMost, Over: b.Over(), From: b.From, Taken: int64(len(b.Holders(live))),
				DryRun: b.DryRun, Text: b.Text()})
		}
	}
	slices.SortFunc(caps, func(a, b CapState) int {
		return cmp.Or(cmp.Compare(a.Service, b.Service), cmp.Compare(a.Env, b.Env), cmp.Compare(a.Policy, b.Policy))
	})
	return all, caps, nil
}

// Deploys serves GET /api/v1/deploys?service=&days=: the deploys under way, those of
// so many days, one unless said, and the caps that hold now.
func (d *Desk) Deploys(archive DeployArchive) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		back, ok := days(w, r, 1)
		if !ok {
			return
		}
		list, caps, err := d.Deploying(r.Context(), archive, strings.TrimSpace(r.URL.Query().Get("service")), d.instant().Add(-back))
		if err != nil {
			reply.Away(w)
			return
		}
		reply.JSON(w, http.StatusOK, map[string]any{"deploys": list, "caps": caps})
	}
}
