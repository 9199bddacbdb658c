package dialect

import (
	"strings"
	"testing"
	"time"

	"breakwater/slo"
	"breakwater/slo/freeze"
	"breakwater/slo/gate"
)

const runs, between = "1111111111111111111111111111111111111111", "2222222222222222222222222222222222222222"

// labelled is a release of two commits by two pull requests, both labelled by an owner.
func labelled(t *testing.T) *githubWorld {
	w := newGitHubWorld(t, slo.Frozen)
	w.known.Causes = []slo.Cause{{Kind: slo.ByDeploy, Service: "order", Env: "prod", Ref: runs, From: noon.Add(-time.Hour)}}
	w.cfg.Labels = map[string]gate.Kind{"security": gate.SecurityFix, "reliability": gate.ReliabilityFix}
	w.cfg.Running = func(service, env string) string { return w.Known().Running(service, env) }
	w.hub.gets = map[string]string{
		"/repos/acme/shop/compare/" + runs + "..." + sha: `{"status":"ahead","total_commits":2,"commits":[{"sha":"` + between + `"},{"sha":"` + sha + `"}]}`,
		"/repos/acme/shop/commits/" + between + "/pulls": `[{"number":6,"state":"closed","merged_at":null,"user":{"login":"bob"},"labels":[]},{"number":7,"state":"closed","merged_at":"2026-03-10T10:00:00Z","user":{"login":"bob"},"labels":[{"name":"Security"},{"name":"docs"}]}]`,
		"/repos/acme/shop/commits/" + sha + "/pulls":     `[{"number":8,"state":"closed","merged_at":"2026-03-10T11:00:00Z","user":{"login":"bob"},"labels":[{"name":"security"}]}]`,
		"/repos/acme/shop/issues/7/events":               `[{"event":"labeled","label":{"name":"security"},"actor":{"login":"bob"}},{"event":"unlabeled","label":{"name":"security"},"actor":{"login":"ann"}},{"event":"labeled","label":{"name":"Security"},"actor":{"login":"ann"}},{"event":"merged","actor":{"login":"bob"}}]`,
		"/repos/acme/shop/issues/8/events":               `[{"event":"labeled","label":{"name":"security"},"actor":{"login":"ann"}}]`,
		"/repos/acme/shop/collaborators/ann/permission":  `{"permission":"write","role_name":"maintain"}`,
		"/repos/acme/shop/collaborators/eve/permission":  `{"permission":"write","role_name":"write"}`,
	}
	return w
}

func (w *githubWorld) ask(t *testing.T) {
	t.Helper()
	w.hook = NewGitHub(w.cfg)
	if rec := w.deliver("deployment_protection_rule", "g-1", w.requested()); rec.Code != 202 {
		t.Fatalf("%d %s", rec.Code, rec.Body)
	}
	w.tick(t)
}

func TestALabelOfACodeOwnerProves(t *testing.T) {
	w := labelled(t)
	w.ask(t)
	if w.hub.review != "approved" || len(w.kept) != 1 || w.kept[0].Decision.Kind != gate.SecurityFix || w.kept[0].Decision.ProvenBy != freeze.Label || w.kept[0].By != "github" {
		t.Fatalf("reviewed %q, reported %q, kept %+v", w.hub.review, w.hub.reports, w.kept)
	}
	// A list of owners takes the place of GitHub's roles.
	w = labelled(t)
	w.cfg.Owners = []string{"Ann"}
	delete(w.hub.gets, "/repos/acme/shop/collaborators/ann/permission")
	if w.ask(t); w.hub.review != "approved" {
		t.Errorf("by a listed owner: %q, reported %q", w.hub.review, w.hub.reports)
	}
	// Nobody is asked for labels that are not needed, or are none of ours.
	for name, change := range map[string]func(*githubWorld){
		"without a freeze": func(w *githubWorld) { w.set(slo.Normal) },
		"without labels":   func(w *githubWorld) { w.cfg.Labels = nil },
	} {
		w := labelled(t)
		change(w)
		if w.ask(t); len(w.hub.got) != 0 {
			t.Errorf("%s GitHub was asked %q", name, w.hub.got)
		}
	}
}

// A label proves only what the policy says that it may, of everything that goes out,
// and set by somebody who may.
func TestWhatALabelDoesNotProve(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(w *githubWorld)
		want   string
	}{
		"by a policy that takes none": {func(w *githubWorld) {
			p := freeze.Default()
			p.Name, p.Passes = "strict", []freeze.Pass{{Kind: gate.SecurityFix, Proofs: []freeze.Proof{freeze.Attested}}}
			w.known.Policies = []freeze.Policy{p}
		}, "a signed attestation"},
		"by a policy that passes no such kind": {func(w *githubWorld) {
			p := freeze.Default()
			p.Name, p.Passes = "strict", []freeze.Pass{{Kind: gate.Rollback, Proofs: []freeze.Proof{freeze.Label}}}
			w.known.Policies = []freeze.Policy{p}
		}, "has to wait"},
		"set by the author": {func(w *githubWorld) {
			w.hub.gets["/repos/acme/shop/commits/"+sha+"/pulls"] = strings.Replace(w.hub.gets["/repos/acme/shop/commits/"+sha+"/pulls"], "bob", "Ann", 1)
		}, "was set by its own author"},
		"set by no owner": {func(w *githubWorld) {
			w.hub.gets["/repos/acme/shop/issues/8/events"] = strings.Replace(w.hub.gets["/repos/acme/shop/issues/8/events"], "ann", "eve", 1)
		}, "who is no code owner"},
		"set by who is not listed": {func(w *githubWorld) { w.cfg.Owners = []string{"carl"} }, "who is no code owner"},
		"set by who has left": {func(w *githubWorld) {
			w.hub.gets["/repos/acme/shop/issues/8/events"] = strings.Replace(w.hub.gets["/repos/acme/shop/issues/8/events"], "ann", "gone", 1)
		}, "who is no code owner"},
		"taken off, and on again by nobody": {func(w *githubWorld) {
			w.hub.gets["/repos/acme/shop/issues/8/events"] = `[{"event":"labeled","label":{"name":"security"},"actor":{"login":"ann"}},{"event":"unlabeled","label":{"name":"security"},"actor":{"login":"ann"}}]`
		}, "nobody can tell who set"},
		"of one change of two": {func(w *githubWorld) {
			w.hub.gets["/repos/acme/shop/commits/"+between+"/pulls"] = strings.Replace(w.hub.gets["/repos/acme/shop/commits/"+between+"/pulls"], "Security", "feature", 1)
		}, "#7 carries none of the labels"},
		"beside a commit without a pull request": {func(w *githubWorld) { w.hub.gets["/repos/acme/shop/commits/"+between+"/pulls"] = `[]` }, "commit 2222222 came by no pull request"},
		"of two kinds": {func(w *githubWorld) {
			w.hub.gets["/repos/acme/shop/commits/"+between+"/pulls"] = strings.Replace(w.hub.gets["/repos/acme/shop/commits/"+between+"/pulls"], "Security", "reliability", 1)
			w.hub.gets["/repos/acme/shop/issues/7/events"] = strings.ReplaceAll(w.hub.gets["/repos/acme/shop/issues/7/events"], "Security", "reliability")
		}, "would go out together"},
		"over what nobody marked":    {func(w *githubWorld) { w.known.Causes = nil }, "what runs now is not known"},
		"over a version with a name": {func(w *githubWorld) { w.known.Causes[0].Ref = "v1.42" }, "what runs now is not known"},
		"beside what runs": {func(w *githubWorld) {
			w.hub.gets["/repos/acme/shop/compare/"+runs+"..."+sha] = `{"status":"diverged","total_commits":1,"commits":[{"sha":"` + sha + `"}]}`
		}, "does not follow what runs now"},
		"of too much": {func(w *githubWorld) {
			w.hub.gets["/repos/acme/shop/compare/"+runs+"..."+sha] = `{"status":"ahead","total_commits":31,"commits":[{"sha":"` + sha + `"}]}`
		}, "31 commits would go out"},
		"that cannot be read": {func(w *githubWorld) { delete(w.hub.gets, "/repos/acme/shop/issues/8/events") }, "could not be read"},
	} {
		w := labelled(t)
		tt.change(w)
		w.ask(t)
		if w.hub.review != "" || len(w.hub.reports) != 1 || !strings.Contains(w.hub.reports[0], tt.want) {
			t.Errorf("%s: reviewed %q, reported %q, want %q in it", name, w.hub.review, w.hub.reports, tt.want)
		}
	}
}

// Labels are read once a minute, not with every question; one that is taken off proves
// nothing any more, and one that is set does.
func TestLabelsAreReadAgain(t *testing.T) {
	w := labelled(t)
	good := w.hub.gets["/repos/acme/shop/commits/"+sha+"/pulls"]
	w.hub.gets["/repos/acme/shop/commits/"+sha+"/pulls"] = strings.Replace(good, `{"name":"security"}`, "", 1)
	w.ask(t)
	before := len(w.hub.got)
	for range 9 {
		w.pass(6 * time.Second)
		w.tick(t)
	}
	if len(w.hub.got) != before || w.hub.review != "" {
		t.Errorf("within a minute asked %q", w.hub.got[before:])
	}
	w.hub.gets["/repos/acme/shop/commits/"+sha+"/pulls"] = good
	w.pass(12 * time.Second)
	w.tick(t)
	if w.hub.review != "approved" {
		t.Errorf("labelled since: reviewed %q, reported %q", w.hub.review, w.hub.reports)
	}
}
