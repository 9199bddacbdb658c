package demo

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"breakwater/gateway/config"
	"breakwater/injector/scenario"
	"breakwater/internal/conf"
	"breakwater/slo/openslo"
)

func render(t *testing.T, now time.Time) (dir string) {
	t.Helper()
	shop, err := Open(ShopConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer shop.Close()
	dir = t.TempDir()
	if err := Write(dir, DocumentConfig{Env: "demo", Endpoints: shop.Endpoints, Now: now}); err != nil {
		t.Fatal(err)
	}
	return dir
}

// What the demo writes must be what their readers take without a word, warnings
// included.
func TestDocumentsAreGood(t *testing.T) {
	dir := render(t, noon)
	files, err := conf.Load(dir)
	if err != nil || len(files) != 3 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	var log conf.Log
	cfg := config.Parse(files, &log)
	for _, m := range log.All() {
		t.Error(m)
	}
	if len(cfg.Upstreams) != 4 || len(cfg.Services) != 4 || len(cfg.Routes) != 8 {
		t.Errorf("%d upstreams, %d services, %d routes", len(cfg.Upstreams), len(cfg.Services), len(cfg.Routes))
	}
	if u, _ := cfg.Upstream(Order); len(u.Endpoints) != 2 || u.Endpoints[0].Rack == u.Endpoints[1].Rack {
		t.Errorf("order: %+v", u)
	}
	for _, r := range cfg.Routes {
		if !r.Core || !r.Retry.Enabled || r.Retry.PerTry >= r.Timeout {
			t.Errorf("route %+v", r)
		}
	}
	log = conf.Log{}
	slos := openslo.Parse(conf.File{Name: "slo.yaml", Data: read(t, dir, "slo.yaml")}, &log)
	for _, m := range log.All() {
		t.Error(m)
	}
	if len(slos.Objectives) != 4 {
		t.Fatalf("%d objectives", len(slos.Objectives))
	}
	for _, o := range slos.Objectives {
		if want := PastOf(o.Service).TargetPPB; o.TargetPPB != want || o.Window != 30*day || o.Owner == "" {
			t.Errorf("%s promises %d, its history %d: %+v", o.Service, o.TargetPPB, want, o)
		}
	}
	set, warnings, err := scenario.Parse(files...)
	if err != nil || len(warnings) != 0 {
		t.Fatalf("%v %v", err, warnings)
	}
	if len(set.Scenarios) != 2 || len(set.GameDays) != 2 {
		t.Errorf("%d scenarios, %d game days", len(set.Scenarios), len(set.GameDays))
	}
	facts := scenario.Facts{PerTry: 800 * time.Millisecond, Retries: 2, RPSMilli: int64(1000 * DefaultRate * (rateShare("coupon-get") + rateShare("coupon-redeem")))}
	facts.TargetPPB = map[string]int64{}
	for _, o := range slos.Objectives {
		facts.TargetPPB[o.Service] = o.TargetPPB
	}
	for _, s := range set.Scenarios {
		if s.Target.Service == Points {
			t.Errorf("%s hits points, which breaks by itself", s.ID)
		}
		for _, w := range s.Preflight(facts) {
			t.Errorf("%s: %s: %s", s.ID, w.Code, w.Text)
		}
	}
}

func read(t *testing.T, dir, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Whenever the demo starts, its first drill is due early enough to be seen and
// late enough for a steady state, and the other game day comes later.
func TestFirstDrillIsDue(t *testing.T) {
	for s := range 180 {
		now := time.Date(2026, 12, 31, 23, 57, 0, 0, time.UTC).Add(time.Duration(s)*time.Second + 500*time.Millisecond)
		due := FirstDrill(now)
		if wait := due.Sub(now); wait < 25*time.Second || wait > 85*time.Second {
			t.Fatalf("started at %v, due %v later", now, wait)
		}
	}
	now := time.Date(2026, 12, 31, 23, 59, 10, 0, time.UTC)
	set, _, err := scenario.Parse(conf.File{Name: "drills.yaml", Data: read(t, render(t, now), "drills.yaml")})
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range set.GameDays {
		c, err := g.Schedule.Compile(now)
		if err != nil {
			t.Fatal(err)
		}
		next, ok := c.Next(now)
		want := map[string]time.Time{"weekly-small-drill": FirstDrill(now), "hourly-retry-drill": FirstDrill(now).Add(10 * time.Minute)}[g.Name]
		if !ok || !next.Equal(want) {
			t.Errorf("%s is due at %v, want %v", g.Name, next, want)
		}
	}
}
