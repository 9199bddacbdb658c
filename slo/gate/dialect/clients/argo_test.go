package clients

import (
	"strings"
	"testing"

	"github.com/argoproj/argo-rollouts/metricproviders/webmetric"
	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	"github.com/sirupsen/logrus"
)

func TestArgoRollouts(t *testing.T) {
	var template v1alpha1.AnalysisTemplate
	sample(t, "argo-analysistemplate.yaml", &template)
	measure := func(change func(*v1alpha1.WebMetric)) v1alpha1.Measurement {
		t.Helper()
		metric := *template.Spec.Metrics[0].DeepCopy()
		if change != nil {
			change(metric.Provider.Web)
		}
		client, err := webmetric.NewWebMetricHttpClient(metric)
		if err != nil {
			t.Fatal(err)
		}
		parser, err := webmetric.NewWebMetricJsonParser(metric)
		if err != nil {
			t.Fatal(err)
		}
		return webmetric.NewWebMetricProvider(*logrus.NewEntry(logrus.New()), client, parser).Run(&v1alpha1.AnalysisRun{}, metric)
	}
	for level, want := range map[string]v1alpha1.AnalysisPhase{"normal": v1alpha1.AnalysisPhaseSuccessful, "emergency": v1alpha1.AnalysisPhaseSuccessful,
		"frozen": v1alpha1.AnalysisPhaseFailed, "blind": v1alpha1.AnalysisPhaseFailed, "away": v1alpha1.AnalysisPhaseError} {
		state(t, level)
		if m := measure(nil); m.Phase != want || level == "frozen" && !strings.Contains(m.Value, `"decision_id":"d-`) {
			t.Errorf("%s: %s %s %s, want %s", level, m.Phase, m.Message, m.Value, want)
		}
	}
	state(t, "normal")
	for name, change := range map[string]func(*v1alpha1.WebMetric){
		"a token that ended": func(w *v1alpha1.WebMetric) { w.Headers[0].Value = "Bearer bw_ended" },
		"no token":           func(w *v1alpha1.WebMetric) { w.Headers = nil },
		"a parameter's typo": func(w *v1alpha1.WebMetric) { w.URL = strings.Replace(w.URL, "env=", "enviroment=", 1) },
		"no such service":    func(w *v1alpha1.WebMetric) { w.URL = strings.Replace(w.URL, "service=order", "service=nobody", 1) },
	} {
		// A measurement that errors is no failure: only a failed one stops a release.
		if m := measure(change); m.Phase != v1alpha1.AnalysisPhaseFailed {
			t.Errorf("%s: %s %s %s", name, m.Phase, m.Message, m.Value)
		}
	}
	posted := measure(func(w *v1alpha1.WebMetric) {
		w.URL, _, _ = strings.Cut(w.URL, "?")
		w.Method, w.JSONBody = v1alpha1.WebMetricMethodPost, []byte(`{"service":"order","env":"prod"}`)
	})
	if posted.Phase != v1alpha1.AnalysisPhaseSuccessful {
		t.Errorf("posted: %s %s", posted.Phase, posted.Message)
	}
}
