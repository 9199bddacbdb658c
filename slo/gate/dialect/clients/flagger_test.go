package clients

import (
	"strings"
	"testing"

	flagger "github.com/fluxcd/flagger/pkg/apis/flagger/v1beta1"
	"github.com/fluxcd/flagger/pkg/controller"
)

func TestFlagger(t *testing.T) {
	var canary flagger.Canary
	sample(t, "flagger-canary.yaml", &canary)
	canary.Status.LastAppliedSpec = "7d9c"
	hooks := canary.GetAnalysis().Webhooks
	if len(hooks) != 5 {
		t.Fatalf("%d hooks", len(hooks))
	}
	for _, tt := range []struct {
		level     string
		goes, not bool // on, and back
	}{{"normal", true, false}, {"emergency", true, false}, {"frozen", false, true}, {"blind", false, false}, {"away", false, false}} {
		state(t, tt.level)
		for _, hook := range hooks {
			if hook.Type == flagger.EventHook {
				continue
			}
			want := tt.goes
			if hook.Type == flagger.RollbackHook { // inverted: a yes takes the canary away
				want = tt.not
			}
			err := controller.CallWebhook(canary, flagger.CanaryPhaseProgressing, hook)
			if (err == nil) != want {
				t.Errorf("%s, %s: %v, want a yes: %v", tt.level, hook.Type, err, want)
			}
			if tt.level == "frozen" && err != nil && !strings.Contains(err.Error(), "decision d-") {
				t.Errorf("%s does not name its decision: %v", hook.Type, err)
			}
		}
	}
	state(t, "normal")
	canary.Status.Phase = flagger.CanaryPhaseSucceeded
	for _, hook := range hooks {
		if hook.Type == flagger.EventHook {
			if err := controller.CallEventWebhook(&canary, hook, "Promotion completed", "Normal"); err != nil {
				t.Error(err)
			}
		}
	}
}
