package store

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"breakwater/internal/auth"
	"breakwater/internal/pgtest"
	"breakwater/slo"
	"breakwater/slo/freeze"
	"breakwater/slo/gate"
)

func deployOf(service, ref string, until time.Time) slo.Deploy {
	return slo.Deploy{Service: service, Env: "prod", Ref: ref, Key: slo.DeployKey(ref, ""), By: "ci", Decision: "d-" + ref, Until: until}
}

// Four ask at once at each of two controls that share nothing but the database.
func TestSLO_C1_NeverMoreDeploysThanTheCap(t *testing.T) {
	pool := pgtest.Pool(t)
	other, err := pgxpool.NewWithConfig(t.Context(), pool.Config())
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	const most, askers = 2, 4
	full := func(live []slo.Deploy) bool { return len(live) >= most }
	for round := range 5 {
		var wg sync.WaitGroup
		var mu sync.Mutex
		got := 0
		for c, s := range []*Store{New(pool), New(other)} {
			for i := range askers {
				wg.Go(func() {
					_, ok, err := s.BeginDeploy(t.Context(), deployOf("order", fmt.Sprintf("r%d-%d-%d", round, c, i), sloNoon.Add(time.Hour)), full, sloNoon)
					mu.Lock()
					defer mu.Unlock()
					if err != nil {
						t.Error(err)
					} else if ok {
						got++
					}
				})
			}
		}
		wg.Wait()
		live, err := New(pool).Deploys(t.Context(), "", sloNoon.Add(time.Hour), 100)
		if err != nil || got != most || len(live) != most {
			t.Fatalf("round %d: %d were let out, %d are under way, %v", round, got, len(live), err)
		}
		for _, d := range live {
			if n, err := New(pool).EndDeploy(t.Context(), slo.DeployEnd{Service: "order", Env: "prod", Ref: d.Ref, Outcome: slo.DeploySucceeded, By: "ci"}, sloNoon); n != 1 || err != nil {
				t.Fatal(n, err)
			}
		}
	}
}

// The same by the gate itself, with a policy over several services.
func TestSLO_C1_TwoGatesGiveOneSlotOnce(t *testing.T) {
	s := New(pgtest.Pool(t))
	p := freeze.Default()
	p.Name, p.Acts = "shop", []freeze.Act{{From: slo.Normal, Deploys: &freeze.Cap{AtMost: 1, Shared: true, Lasts: 10 * time.Minute}}}
	p.Passes = nil
	now := sloNoon
	calm := frozen{now}.Statuses()[0]
	calm.Level, calm.Measured = slo.Normal, slo.Normal
	points := calm
	points.Objective.ID, points.Objective.Service = "points-availability", "points"
	gates := make([]*gate.Gate, 2)
	for i := range gates {
		book := freeze.NewBook(s, nil)
		book.Rule([]freeze.Policy{p})
		if err := book.Tick(t.Context(), now); err != nil {
			t.Fatal(err)
		}
		gates[i] = gate.New(gate.Config{Source: evaluated{calm, points}, Keeper: s, Book: book, Slots: s, Now: func() time.Time { return now }})
	}
	ctx := auth.With(t.Context(), auth.Principal{Name: "ci", Role: auth.Pipeline})
	var wg sync.WaitGroup
	answers := make([]gate.Decision, 8)
	for i := range answers {
		wg.Go(func() {
			answers[i] = gates[i%2].Answer(ctx, gate.Request{Service: []string{"order", "points"}[i/4], Env: "prod", Kind: gate.Feature, Ref: fmt.Sprintf("v%d", i)})
		})
	}
	wg.Wait()
	allowed := 0
	for _, d := range answers {
		switch d.Decision {
		case gate.Allow:
			allowed++
		case gate.Hold, gate.Unclear: // where the machine was too slow for the gate's patience
		default:
			t.Errorf("%+v", d)
		}
	}
	known, err := s.Known(ctx, now)
	if err != nil || allowed > 1 || len(known.Deploys) > 1 {
		t.Errorf("%d were let out, %+v hold slots, %v", allowed, known.Deploys, err)
	}
}

type evaluated []slo.Status

func (e evaluated) Statuses() []slo.Status { return append([]slo.Status(nil), e...) }

func TestADeployFromBeginToEnd(t *testing.T) {
	s := New(pgtest.Pool(t))
	ctx, at := t.Context(), func(minutes int) time.Time { return sloNoon.Add(time.Duration(minutes) * time.Minute) }
	begin := func(d slo.Deploy, full func([]slo.Deploy) bool, now time.Time) (slo.Deploy, bool) {
		t.Helper()
		got, ok, err := s.BeginDeploy(ctx, d, full, now)
		if err != nil {
			t.Fatal(err)
		}
		return got, ok
	}
	taken := func(live []slo.Deploy) bool { return len(live) > 0 }
	told := deployOf("order", "v1", at(30))
	told.Decision = ""
	first, ok := begin(told, nil, at(0))
	if !ok || first.ID == "" || !first.Begun.Equal(at(0)) {
		t.Fatalf("%+v", first)
	}
	if _, ok := begin(deployOf("order", "v2", at(40)), taken, at(10)); ok {
		t.Error("the slot was given twice")
	}
	if again, ok := begin(deployOf("order", "v1", at(50)), taken, at(20)); !ok || again.ID != first.ID || !again.Until.Equal(at(50)) {
		t.Errorf("asked again: %+v", again)
	}
	// Under way it has not run; what fails meanwhile is put down to it.
	known, err := s.Known(ctx, at(21))
	if err != nil || len(known.Deploys) != 1 || len(known.Causes) != 0 || known.Running("order", "prod") != "" {
		t.Errorf("%+v, %v", known, err)
	}
	if n, err := s.EndDeploy(ctx, slo.DeployEnd{Service: "order", Env: "prod", Ref: "v1", Outcome: slo.DeploySucceeded, By: "ci"}, at(25)); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	if known, err = s.Known(ctx, at(26)); err != nil || len(known.Deploys) != 0 || len(known.Causes) != 1 || !known.Causes[0].From.Equal(at(0)) || !known.Causes[0].To.Equal(at(25)) || known.Running("order", "prod") != "v1" {
		t.Errorf("%+v, %v", known, err)
	}
	// One that failed frees its slot and proves no rollback.
	begin(deployOf("order", "v2", at(60)), taken, at(30))
	if _, err := s.EndDeploy(ctx, slo.DeployEnd{Service: "order", Env: "prod", Ref: "v2", Outcome: slo.DeployFailed, By: "ci"}, at(31)); err != nil {
		t.Fatal(err)
	}
	if known, err = s.Known(ctx, at(32)); err != nil || known.Running("order", "prod") != "v1" || known.Ran("order", "prod", "v2") {
		t.Errorf("%+v, %v", known.Causes, err)
	}
	// A mark of a deploy that is done ends it too, and one whose beginning was told is one mark.
	begin(deployOf("order", "v3", at(60)), taken, at(33))
	told.Ref, told.Key, told.Until = "v4", "ref/v4", at(60)
	begin(told, nil, at(34))
	for _, ref := range []string{"v3", "v4"} {
		if err := s.AddCause(ctx, slo.Cause{Kind: slo.ByDeploy, Service: "order", Env: "prod", Ref: ref, From: at(35), Actor: "ci"}, at(35)); err != nil {
			t.Fatal(err)
		}
	}
	if known, err = s.Known(ctx, at(36)); err != nil || len(known.Deploys) != 0 || len(known.Causes) != 3 {
		t.Errorf("%+v, %+v, %v", known.Deploys, known.Causes, err)
	}
	// Nobody tells of its end: the lease does.
	begin(deployOf("order", "v5", at(60)), taken, at(40))
	if err := s.CloseDeploys(ctx, at(60)); err != nil {
		t.Fatal(err)
	}
	list, err := s.Deploys(ctx, "order", at(39), 10)
	if err != nil || len(list) != 1 || list[0].Outcome != slo.DeployLapsed || !list[0].Ended.Equal(at(60)) {
		t.Errorf("%+v, %v", list, err)
	}
	if n, err := s.EndDeploy(ctx, slo.DeployEnd{Service: "order", Env: "prod", Ref: "v5", Outcome: slo.DeploySucceeded, By: "github", IfHeld: true}, at(61)); n != 0 || err != nil {
		t.Error(n, err)
	}
	want := "deploy.begin deploy.end deploy.begin deploy.end deploy.begin deploy.begin deploy.end deploy.note deploy.end deploy.begin deploy.lapse"
	if got := actions(ctx, t, s); got != want {
		t.Errorf("the audit has\n%s\nwant\n%s", got, want)
	}
	if _, err := auth.Verify(ctx, s); err != nil {
		t.Error(err)
	}
}

func actions(ctx context.Context, t *testing.T, s *Store) string {
	t.Helper()
	rows, err := s.AuditRows(ctx, 0, 1000)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, r := range rows {
		out = append(out, r.Action)
	}
	return strings.Join(out, " ")
}
