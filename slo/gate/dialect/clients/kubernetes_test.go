package clients

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	webhook "k8s.io/apiserver/pkg/admission/plugin/webhook/request"
)

func deployment(image string) *appsv1.Deployment {
	labels := map[string]string{"app": "order"}
	replicas := int32(3)
	return &appsv1.Deployment{TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"},
		ObjectMeta: metav1.ObjectMeta{Name: "order", Namespace: "shop", UID: "u-1", Labels: labels},
		Spec: appsv1.DeploymentSpec{Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "order", Image: image}}}}}}
}

// TestAdmission posts reviews made of Kubernetes' own types, and has the API
// server's own code judge the answers.
func TestAdmission(t *testing.T) {
	admit := func(from, to *appsv1.Deployment, change func(*admissionv1.AdmissionRequest)) *webhook.AdmissionResponse {
		t.Helper()
		raw := func(d *appsv1.Deployment) runtime.RawExtension {
			if d == nil {
				return runtime.RawExtension{}
			}
			b, err := json.Marshal(d)
			if err != nil {
				t.Fatal(err)
			}
			return runtime.RawExtension{Raw: b}
		}
		dry := false
		review := admissionv1.AdmissionReview{TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"}, Request: &admissionv1.AdmissionRequest{
			UID: "0df28fbd-5f5f-11e8-bc74-36e6bb280816", Kind: metav1.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"},
			Resource: metav1.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}, Name: "order", Namespace: "shop",
			Operation: admissionv1.Update, Object: raw(to), OldObject: raw(from), DryRun: &dry}}
		if from == nil {
			review.Request.Operation = admissionv1.Create
		}
		if change != nil {
			change(review.Request)
		}
		body, err := json.Marshal(review)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.Post(gate(t)+"/admission", "application/json", bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		text, _ := io.ReadAll(resp.Body)
		var answer admissionv1.AdmissionReview
		dec := json.NewDecoder(bytes.NewReader(text))
		dec.DisallowUnknownFields()
		if err := dec.Decode(&answer); err != nil || resp.StatusCode != http.StatusOK {
			t.Fatalf("%s %s: %v", resp.Status, text, err)
		}
		verified, err := webhook.VerifyAdmissionResponse(types.UID(review.Request.UID), false, &answer)
		if err != nil {
			t.Fatalf("the API server does not take %s: %v", text, err)
		}
		return verified
	}
	v1, v2 := deployment("order:v1"), deployment("order:v2")
	state(t, "normal")
	if r := admit(v1, v2, nil); !r.Allowed {
		t.Errorf("all is well: %+v", r.Result)
	}
	state(t, "frozen")
	if r := admit(v1, v2, nil); r.Allowed || r.Result.Code != http.StatusForbidden || r.Result.Message == "" {
		t.Errorf("frozen: %+v", r)
	}
	if r := admit(nil, v2, nil); r.Allowed {
		t.Error("frozen, made anew: let through")
	}
	more := v1.DeepCopy()
	*more.Spec.Replicas = 9
	more.Annotations = map[string]string{"note": "x"}
	if r := admit(v1, more, nil); !r.Allowed {
		t.Errorf("frozen, more replicas: %+v", r.Result)
	}
	if r := admit(v1, v2, func(r *admissionv1.AdmissionRequest) { r.SubResource = "scale" }); !r.Allowed {
		t.Errorf("frozen, scale: %+v", r.Result)
	}
	if r := admit(v1, deployment("order:v0"), nil); !r.Allowed { // the parent's history holds v0
		t.Errorf("frozen, back to what ran before: %+v", r.Result)
	}
	state(t, "blind")
	if r := admit(v1, v2, nil); r.Allowed {
		t.Error("nothing known: let through")
	}
}
