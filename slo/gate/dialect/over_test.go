package dialect

import (
	"errors"
	"strings"
	"testing"

	"breakwater/slo"
)

// The states of https://docs.github.com/en/rest/deployments/statuses: those in which a
// deployment is over free its slot, by the commit that the gate was asked about.
func TestGitHubTellsThatADeploymentIsOver(t *testing.T) {
	w := newGitHubWorld(t, slo.Normal)
	w.cfg.Marks = w
	w.hook = NewGitHub(w.cfg)
	status := func(state string) string {
		return strings.Replace(w.requested(`"action":"requested","environment":"production",=>"action":"created",`), `"pull_requests":[]`, `"deployment_status":{"state":"`+state+`","environment":"production"}`, 1)
	}
	for i, tt := range []struct {
		state string
		want  slo.DeployOutcome
	}{{"pending", ""}, {"queued", ""}, {"in_progress", ""}, {"success", slo.DeploySucceeded}, {"failure", slo.DeployFailed}, {"error", slo.DeployFailed}, {"inactive", slo.DeploySucceeded}} {
		w.ends = nil
		rec := w.deliver("deployment_status", "s-"+string(rune('a'+i)), status(tt.state))
		if rec.Code != 200 || (len(w.ends) == 1) != (tt.want != "") {
			t.Errorf("%s: %d %s, %+v", tt.state, rec.Code, rec.Body, w.ends)
			continue
		}
		if tt.want == "" {
			continue
		}
		if e := w.ends[0]; e.Service != "order" || e.Env != "prod" || e.Ref != sha || e.Outcome != tt.want || !e.IfHeld || e.By != "github" {
			t.Errorf("%s: %+v", tt.state, e)
		}
	}
	w.endErr = errors.New("away")
	if rec := w.deliver("deployment_status", "s-z", status("success")); rec.Code != 503 {
		t.Errorf("not written down, it answers %d", rec.Code)
	}
}
