package dialect

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"breakwater/slo"
)

func TestGitHubIsApprovedAtThaw(t *testing.T) {
	w := newGitHubWorld(t, slo.Frozen)
	if rec := w.deliver("deployment_protection_rule", "g-1", w.requested()); rec.Code != 202 {
		t.Fatalf("%d %s", rec.Code, rec.Body)
	}
	w.tick(t)
	if len(w.hub.reports) != 1 || w.hub.review != "" || !strings.Contains(w.hub.reports[0], "Decision `d-") {
		t.Fatalf("reported %q, reviewed %q", w.hub.reports, w.hub.review)
	}
	for range 100 { // the same state is told once
		w.pass(6 * time.Second)
		w.tick(t)
	}
	if len(w.hub.reports) != 1 || len(w.kept) != 1 {
		t.Errorf("%d reports, %d decisions kept", len(w.hub.reports), len(w.kept))
	}
	w.hook = NewGitHub(w.cfg) // another process, the same shelf
	w.set(slo.Normal)
	w.pass(6 * time.Second)
	w.tick(t)
	if w.hub.review != "approved" || w.hub.tokens != 1 || len(w.shelf.audited) != 1 || w.shelf.audited[0].Action != "github.approved" || !strings.Contains(w.hub.comment, w.kept[1].Decision.DecisionID) {
		t.Errorf("reviewed %q with %q, %d tokens, audited %+v", w.hub.review, w.hub.comment, w.hub.tokens, w.shelf.audited)
	}
	w.pass(time.Minute)
	w.tick(t)
	if len(w.shelf.done) != 1 || len(w.kept) != 2 {
		t.Errorf("it goes on: %v, %d", w.shelf.done, len(w.kept))
	}
}

func TestGitHubReportsAreFewAndShort(t *testing.T) {
	w := newGitHubWorld(t, slo.Frozen)
	w.statuses[0].Reason = strings.Repeat("@ann says that it is spent. ", 100)
	w.deliver("deployment_protection_rule", "g-1", w.requested())
	for i := range 40 {
		w.pass(31 * time.Second)
		if i%2 == 1 {
			w.blind()
		}
		w.tick(t)
	}
	if len(w.hub.reports) != maxReports || w.hub.refused != 0 || w.hub.review != "" || len(w.shelf.done) != 0 {
		t.Fatalf("%d reports, reviewed %q, done %v", len(w.hub.reports), w.hub.review, w.shelf.done)
	}
	for _, text := range w.hub.reports {
		if len(text) > maxComment || strings.Contains(text, "@ann") || !strings.HasSuffix(text, "`.") {
			t.Errorf("%d bytes: %s", len(text), text)
		}
	}
	w.set(slo.Normal)
	w.pass(time.Minute)
	w.tick(t)
	if w.hub.review != "approved" {
		t.Errorf("reviewed %q", w.hub.review)
	}
}

// GitHub away: tried again ever more slowly, nothing forgotten, nothing doubled.
func TestGitHubAway(t *testing.T) {
	w := newGitHubWorld(t, slo.Normal)
	w.deliver("deployment_protection_rule", "g-1", w.requested())
	w.hub.away = 503
	var tried int
	for range 200 {
		before := w.shelf.rows["deployment/acme/shop/42/production/501"].Attempts
		w.tick(t)
		if w.shelf.rows["deployment/acme/shop/42/production/501"].Attempts > before {
			tried++
		}
		w.pass(6 * time.Second)
	}
	if tried < 5 || tried > 20 || len(w.shelf.done) != 0 {
		t.Errorf("tried %d times in 20 minutes, done %v", tried, w.shelf.done)
	}
	w.hub.away = 0
	w.hook = NewGitHub(w.cfg)
	w.pass(6 * time.Minute)
	w.tick(t)
	if w.hub.review != "approved" {
		t.Errorf("reviewed %q", w.hub.review)
	}
	// A run that is gone is let go, a revoked token replaced.
	w.deliver("deployment_protection_rule", "g-2", w.requested("501=>502"))
	for range 400 {
		w.pass(6 * time.Second)
		w.tick(t)
	}
	if got := w.shelf.done["deployment/acme/shop/42/production/502"]; got != gaveUp {
		t.Errorf("a run that is decided: %q", got)
	}
}

func TestGitHubUnknownIsNeverApproved(t *testing.T) {
	w := newGitHubWorld(t, slo.Normal)
	w.blind()
	w.deliver("deployment_protection_rule", "g-1", w.requested())
	w.tick(t)
	if w.hub.review != "" || len(w.hub.reports) != 1 || !strings.Contains(w.hub.reports[0], "unknown") {
		t.Errorf("reviewed %q, reported %q", w.hub.review, w.hub.reports)
	}
	w.pass(patience + time.Hour)
	w.tick(t)
	if w.hub.review != "" || w.shelf.done["deployment/acme/shop/42/production/501"] != expired {
		t.Errorf("reviewed %q, done %v", w.hub.review, w.shelf.done)
	}
	// Without a row in the audit nothing is approved.
	w = newGitHubWorld(t, slo.Normal)
	w.deliver("deployment_protection_rule", "g-1", w.requested())
	due, _ := w.shelf.ClaimPending(t.Context(), w.clock(), 1)
	w.shelf.err = fmt.Errorf("away")
	_ = w.hook.step(t.Context(), due[0], w.clock())
	if w.hub.review != "" {
		t.Errorf("approved without an audit")
	}
}

func TestGitHubRejectsAtOnceWhereAsked(t *testing.T) {
	w := newGitHubWorld(t, slo.Frozen)
	w.cfg.Reject = true
	w.hook = NewGitHub(w.cfg)
	w.deliver("deployment_protection_rule", "g-1", w.requested())
	w.tick(t)
	if w.hub.review != "rejected" || len(w.hub.reports) != 0 {
		t.Errorf("reviewed %q, %d reports", w.hub.review, len(w.hub.reports))
	}
}

func TestGitHubKnowsARollback(t *testing.T) {
	w := newGitHubWorld(t, slo.Frozen)
	w.known.Causes = []slo.Cause{{Kind: slo.ByDeploy, Service: "order", Env: "prod", Ref: "newer", From: noon.Add(-time.Hour)}, {Kind: slo.ByDeploy, Service: "order", Env: "prod", Ref: sha, From: noon.Add(-3 * time.Hour)}}
	w.cfg.Ran = func(service, env, sha string) bool { return w.Known().Ran(service, env, sha) }
	w.hook = NewGitHub(w.cfg)
	w.deliver("deployment_protection_rule", "g-1", w.requested())
	w.tick(t)
	if w.hub.review != "approved" || w.kept[0].Decision.Kind != "rollback" || w.kept[0].Decision.ProvenBy != "history" {
		t.Errorf("reviewed %q as %+v", w.hub.review, w.kept)
	}
}

func TestCheckRun(t *testing.T) {
	w := newGitHubWorld(t, slo.Frozen)
	suite := `{"action":"requested","check_suite":{"head_sha":"` + sha + `"},"repository":{"full_name":"acme/shop"},"sender":{}}`
	if rec := w.deliver("check_suite", "g-1", suite); rec.Code != 202 {
		t.Fatalf("%d %s", rec.Code, rec.Body)
	}
	w.tick(t)
	w.pass(31 * time.Second)
	w.blind()
	w.tick(t)
	w.pass(31 * time.Second)
	w.set(slo.Normal)
	w.tick(t)
	// Never neutral or skipped: a branch rule would let those pass.
	if got := strings.Join(w.hub.checks, ", "); got != "POST failure, PATCH action_required, PATCH success" {
		t.Errorf("checks: %s", got)
	}
	if len(w.shelf.audited) != 3 || w.hub.tokens != 1 {
		t.Errorf("%d audited, %d tokens", len(w.shelf.audited), w.hub.tokens)
	}
}

func TestReliability_X167_GitHub(t *testing.T) {
	w := newGitHubWorld(t, slo.Frozen)
	first := w.deliver("deployment_protection_rule", "g-1", w.requested())
	again := w.deliver("deployment_protection_rule", "g-1", w.requested())
	other := w.deliver("deployment_protection_rule", "g-2", w.requested()) // ids are not signed
	if first.Code != 202 || again.Code != 202 || again.Body.String() != first.Body.String() || other.Code != 202 || !strings.Contains(other.Body.String(), "known already") || len(w.shelf.rows) != 1 {
		t.Fatalf("%d, %d %s, %d %s, %d rows", first.Code, again.Code, again.Body, other.Code, other.Body, len(w.shelf.rows))
	}
	twice := w.requested(`"environment":"production"=>"environment":"production","environment":"staging"`)
	signed := func(text string) func(*http.Request) {
		return func(r *http.Request) {
			r.Body = io.NopCloser(strings.NewReader(text))
		}
	}
	for name, tt := range map[string]struct {
		text  string
		alter func(*http.Request)
		want  int
	}{
		"one space more":         {w.requested(), signed(w.requested(`,=>, `)), 401},
		"no signature":           {w.requested(), func(r *http.Request) { r.Header.Del("X-Hub-Signature-256") }, 401},
		"two signatures":         {w.requested(), func(r *http.Request) { r.Header.Add("X-Hub-Signature-256", "sha256=00") }, 401},
		"the old SHA-1":          {w.requested(), func(r *http.Request) { r.Header.Set("X-Hub-Signature-256", "sha1=00") }, 401},
		"an empty signature":     {w.requested(), func(r *http.Request) { r.Header.Set("X-Hub-Signature-256", "sha256=") }, 401},
		"no id":                  {w.requested(), func(r *http.Request) { r.Header.Del("X-GitHub-Delivery") }, 401},
		"a key twice":            {twice, func(*http.Request) {}, 400},
		"older than a run waits": {w.requested("2026-03-10=>2026-02-01"), func(*http.Request) {}, 401},
	} {
		if rec := w.deliver("deployment_protection_rule", "x-"+name, tt.text, tt.alter); rec.Code != tt.want || len(w.shelf.rows) != 1 {
			t.Errorf("%s: %d %s, want %d", name, rec.Code, rec.Body, tt.want)
		}
	}
	w.shelf.err = fmt.Errorf("away")
	if rec := w.deliver("deployment_protection_rule", "g-3", w.requested("501=>503")); rec.Code != 503 {
		t.Errorf("the database is away: %d", rec.Code)
	}
	w.shelf.err = nil
	delete(w.shelf.seen, "githubg-3") // its claim lasts a minute
	if rec := w.deliver("deployment_protection_rule", "g-3", w.requested("501=>503")); rec.Code != 202 || len(w.shelf.rows) != 2 {
		t.Errorf("delivered again: %d %s", rec.Code, rec.Body)
	}
}

// Our token goes nowhere but to the API that is configured, about the repository
// that is named.
func TestGitHubCallbackLeadsNowhereElse(t *testing.T) {
	w := newGitHubWorld(t, slo.Normal)
	good := w.hub.srv.URL + "/repos/acme/shop/actions/runs/42/deployment_protection_rule"
	for i, bad := range []string{"", "http://169.254.169.254/latest", strings.Replace(good, "http://", "http://evil@", 1), "http://evil.example/repos/acme/shop/actions/runs/42/deployment_protection_rule",
		strings.Replace(good, "127.0.0.1", "127.0.0.1.evil.example", 1), strings.Replace(good, "/42/", "/../../../../app/42/", 1), good + "?x=1", good + "#x", strings.Replace(good, "/42/", "/042/", 1),
		strings.Replace(good, "/42/", "/-1/", 1), strings.Replace(good, "acme/shop", "acme/other", 1), strings.Replace(good, "http:", "file:", 1)} {
		if rec := w.deliver("deployment_protection_rule", fmt.Sprint("g", i), w.requested(good+"=>"+bad)); rec.Code != 422 || len(w.shelf.rows) != 0 {
			t.Errorf("%q: %d %s", bad, rec.Code, rec.Body)
		}
	}
	for _, repo := range []string{"acme/shop/x", "../shop", "acme/..", "acme"} {
		text := strings.ReplaceAll(w.requested(), "acme/shop", repo)
		if rec := w.deliver("deployment_protection_rule", "r"+repo, text); rec.Code != 422 {
			t.Errorf("%q: %d", repo, rec.Code)
		}
	}
	for _, api := range []string{"http://github.example", "https://u@api.github.com", "ftp://api.github.com", "api.github.com", "https://api.github.com?x"} {
		if _, err := NewApp("1", nil, api); err == nil || !strings.Contains(err.Error(), "API") {
			t.Errorf("%s: %v", api, err)
		}
	}
}

func TestGitHubTellsAgainWhatNobodyHeard(t *testing.T) {
	w := newGitHubWorld(t, slo.Normal)
	at := func(ago time.Duration) string { return noon.Add(-ago).Format(time.RFC3339) }
	w.hub.list = `[
		{"id":11,"guid":"a","delivered_at":"` + at(2*time.Hour) + `","status_code":502,"event":"deployment_protection_rule"},
		{"id":12,"guid":"a","delivered_at":"` + at(time.Hour) + `","status_code":0,"event":"deployment_protection_rule"},
		{"id":21,"guid":"b","delivered_at":"` + at(2*time.Hour) + `","status_code":503,"event":"deployment_protection_rule"},
		{"id":22,"guid":"b","delivered_at":"` + at(time.Hour) + `","status_code":202,"event":"deployment_protection_rule"},
		{"id":31,"guid":"c","delivered_at":"` + at(time.Hour) + `","status_code":422,"event":"deployment_protection_rule"},
		{"id":41,"guid":"d","delivered_at":"` + at(80*time.Hour) + `","status_code":502,"event":"deployment_protection_rule"},
		{"id":51,"guid":"e","delivered_at":"` + at(time.Hour) + `","status_code":502,"event":"installation"}]`
	if err := w.hook.Recover(t.Context(), w.clock()); err != nil || strings.Join(w.hub.again, " ") != "12" {
		t.Errorf("delivered again: %v, %v", w.hub.again, err)
	}
}
