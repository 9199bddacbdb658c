package main

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"breakwater/gateway/plan"
	"breakwater/injector"
	"breakwater/internal/store"
	"breakwater/slo"
	"breakwater/slo/alert"
	"breakwater/slo/freeze"
)

func TestMeasuresGoIntoThePlanAsTheyAre(t *testing.T) {
	m := freeze.Measure{ID: "m-1", Kind: freeze.Limit, Service: "order", Env: "prod", Reason: "frozen",
		Limit: &freeze.LimitChange{Direction: freeze.Tighten, FactorPPM: 500_000, Tokens: 7, Per: 2 * time.Second, Burst: 3}}
	want := plan.Measure{ID: "m-1", Kind: plan.Limit, Service: "order", Env: "prod", Reason: "frozen", TTLMS: 600_000, Direction: plan.Tighten, FactorPPM: 500_000, Tokens: 7, PerMS: 2000, Burst: 3}
	if got := planMeasure(m); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got := obeyedByGateways([]freeze.Measure{{Kind: freeze.CapDeploys, Cap: &freeze.Cap{AtMost: 1}}, m}); len(got) != 1 || got[0] != want {
		t.Errorf("gateways get %+v", got)
	}
	// What one side writes the other must know.
	for own, theirs := range map[string]string{string(freeze.Shed): plan.Shed, string(freeze.Limit): plan.Limit, string(freeze.StopAll): plan.StopExperiments,
		string(freeze.RefuseAll): plan.RefuseExperiments, string(freeze.Tighten): plan.Tighten, string(freeze.Relax): plan.Relax,
		freeze.KeepDefault: plan.TierDefault, freeze.KeepCritical: plan.TierCritical} {
		if own != theirs {
			t.Errorf("control says %q, a gateway knows %q", own, theirs)
		}
	}
}

type anyBudget struct{}

func (anyBudget) Budget(string) injector.Budget { return injector.Budget{Known: true} }

func TestAnAlertOfOthersKeepsExperimentsAway(t *testing.T) {
	f := &firing{all: []alert.Foreign{{Service: "order", Name: "OrderDown", Source: "alertmanager", Tier: alert.L1}, {Service: "points", Name: "PoolFull", Tier: alert.L2}}}
	protector := freeze.NewProtector(evaluation(func() []slo.Status { return nil }), freeze.NewBook(nil, nil), nil, nil)
	b := barred{anyBudget{}, protector, f.on}
	if got := b.Budget("order"); got.Stop != "" || !strings.Contains(got.Refuse, "OrderDown") || !got.Known {
		t.Errorf("while an L1 fires: %+v", got)
	}
	for _, service := range []string{"points", "coupon"} {
		if got := b.Budget(service); got.Refuse != "" {
			t.Errorf("%s: %+v", service, got)
		}
	}
}

// What control keeps at work beside its routes is all there, and ends when it does,
// with a database that is away too.
func TestReleasesRunAndEnd(t *testing.T) {
	db, err := pgxpool.New(t.Context(), "postgres://nobody@127.0.0.1:1/none")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	c := &control{log: slog.New(slog.DiscardHandler), db: db, store: store.New(db)}
	c.releases = c.newReleases(func() []slo.Status { return nil })
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := c.releases.run(ctx); err != nil {
		t.Error(err)
	}
}

func TestFreezeLsShowsWhatProtects(t *testing.T) {
	control := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch r.URL.Path {
		case "/api/v1/freezes":
			_, _ = w.Write([]byte(`{"freezes":[{"service":"order","env":"prod","state":"frozen"}]}`))
		case "/api/v1/measures":
			_, _ = w.Write([]byte(`{"measures":[{"id":"m-1","service":"order","env":"prod","policies":["shop"],"text":"sheddable requests are shed","live":true},
				{"id":"m-2","service":"order","env":"prod","text":"over","ended_at":"2026-03-10T12:00:00Z"},{"id":"m-3","service":"order","env":"prod","text":"tried","dry_run":true}]}`))
		case "/api/v1/deploys":
			_, _ = w.Write([]byte(`{"deploys":[{"id":"dp-1","service":"order","env":"prod","ref":"v7","by":"ci","begun_at":"2026-03-10T12:00:00Z","until":"9999-03-10T12:30:00Z"}]}`))
		default:
			http.NotFound(w, r)
		}
	}))
	defer control.Close()
	r := verb(t, "", "freeze", "ls", "--control", control.URL)
	r.want(t, exitOK)
	for _, want := range []string{"sheddable requests are shed", "in force", "shop", "dry run", "v7"} {
		if !strings.Contains(r.out, want) {
			t.Errorf("%q is not in\n%s", want, r.out)
		}
	}
	if strings.Contains(r.out, "over") {
		t.Errorf("what has ended is shown:\n%s", r.out)
	}
}

// Every mistake of these documents too, where it stands, and once.
func TestValidateReadsPoliciesAndAlertRoutes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "freeze.yaml")
	write(t, path, `apiVersion: breakwater/v1
kind: FreezePolicy
name: shop
measures:
  - {from: frozen, limit: {factor: 50%}}
---
apiVersion: breakwater/v1
kind: AlertRoute
name: oncall
to: [{type: fax}]
`)
	r := verb(t, "", "validate", path)
	if r.code != exitNo {
		t.Errorf("exit code %d", r.code)
	}
	for _, want := range []string{path + ":5:27", "measures[0].limit: must say its direction", path + ":10:13", "to[0].type: must be alertmanager"} {
		if !strings.Contains(r.out, want) {
			t.Errorf("%q is not in\n%s", want, r.out)
		}
	}
	if strings.Count(r.out, "must say its direction") != 1 {
		t.Errorf("said more than once:\n%s", r.out)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	write(t, path, strings.NewReplacer("{factor: 50%}", "{direction: tighten, factor: 50%}", "{type: fax}", "{type: slack, url_file: /run/slack}").Replace(string(text)))
	verb(t, "", "validate", path).want(t, exitOK)
}

func TestThePagesAddressIsChecked(t *testing.T) {
	for text, want := range map[string]string{"": "", "https://b.example.com/": "https://b.example.com", "http://h:8081/base": "http://h:8081/base"} {
		if got, err := pagesURL(text); err != nil || got != want {
			t.Errorf("%q: %q, %v", text, got, err)
		}
	}
	for _, text := range []string{"b.example.com", "ftp://b", "https://u:p@b", "https://b?x=1", "https://", ":"} {
		if _, err := pagesURL(text); err == nil {
			t.Errorf("%q is taken", text)
		}
	}
}
