package dialect

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"reflect"
	"slices"
	"strings"

	"breakwater/internal/reply"
	"breakwater/slo/freeze"
	"breakwater/slo/gate"
)

// Review is an AdmissionReview of admission.k8s.io/v1, as far as it is needed.
type Review struct {
	APIVersion string    `json:"apiVersion"`
	Kind       string    `json:"kind"`
	Request    *Asked    `json:"request,omitempty"`
	Response   *Admitted `json:"response,omitempty"`
}

// Asked is what the API server asks about.
type Asked struct {
	UID         string          `json:"uid"`
	Resource    Resource        `json:"resource"`
	SubResource string          `json:"subResource"`
	Name        string          `json:"name"`
	Namespace   string          `json:"namespace"`
	Operation   string          `json:"operation"`
	Object      json.RawMessage `json:"object"`
	OldObject   json.RawMessage `json:"oldObject"`
	DryRun      bool            `json:"dryRun"`
}

// Resource names a kind of object.
type Resource struct {
	Group    string `json:"group"`
	Version  string `json:"version"`
	Resource string `json:"resource"`
}

// Admitted is the answer.
type Admitted struct {
	UID      string            `json:"uid"`
	Allowed  bool              `json:"allowed"`
	Status   *Status           `json:"status,omitempty"`
	Warnings []string          `json:"warnings,omitempty"`
	Audit    map[string]string `json:"auditAnnotations,omitempty"`
}

// Status is why not.
type Status struct {
	Code    int    `json:"code"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

// workload is a Deployment, StatefulSet or DaemonSet.
type workload struct {
	Metadata struct {
		Name        string            `json:"name"`
		UID         string            `json:"uid"`
		Labels      map[string]string `json:"labels"`
		Annotations map[string]string `json:"annotations"`
	} `json:"metadata"`
	Spec struct {
		Template json.RawMessage `json:"template"`
	} `json:"spec"`
}

// History knows the pod templates that a workload had before.
type History interface {
	Templates(ctx context.Context, resource, namespace, name, uid string) ([]json.RawMessage, error)
}

// Admission answers validating admission of Kubernetes.
type Admission struct {
	// Ask puts a question to the gate; dryRun: without any effect. An error means
	// that there is no decision.
	Ask     func(ctx context.Context, r gate.Request, dryRun bool) (gate.Decision, error)
	History History // nil: no rollback is ever proven by what ran before
	Env     string
	// Exempt are namespaces that are let be, beside the system's: our own.
	Exempt []string
	// OnUnknown and OnUnknownRollback, "allow" or "deny", are what an unknown answer
	// becomes; for a rollback that history proves, the second. "": deny.
	OnUnknown, OnUnknownRollback string
	Log                          *slog.Logger // nil: none
}

// ServeHTTP serves the webhook.
func (a *Admission) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", "POST")
		reply.Problem(w, http.StatusMethodNotAllowed, "method", "an AdmissionReview is posted")
		return
	}
	var in Review
	text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxReview))
	if err == nil {
		// Not by object: labels may differ in nothing but their case.
		err = json.Unmarshal(text, &in)
	}
	if err == nil && (in.APIVersion != "admission.k8s.io/v1" || in.Kind != "AdmissionReview" || in.Request == nil || in.Request.UID == "") {
		err = errors.New("body: must be an AdmissionReview of admission.k8s.io/v1 with a request")
	}
	if err != nil {
		refuse(w, err)
		return
	}
	out := a.admit(r.Context(), *in.Request)
	out.UID = in.Request.UID
	reply.JSON(w, http.StatusOK, Review{APIVersion: in.APIVersion, Kind: in.Kind, Response: &out})
}

// maxReview bounds a review: two objects, each as large as etcd takes one.
const maxReview = 8 << 20

func (a *Admission) admit(ctx context.Context, in Asked) Admitted {
	yes := func(why string) Admitted {
		return Admitted{Allowed: true, Audit: map[string]string{"why": why}}
	}
	judged := in.Resource.Group == "apps" && slices.Contains([]string{"deployments", "statefulsets", "daemonsets"}, in.Resource.Resource)
	switch {
	case in.Operation != "CREATE" && in.Operation != "UPDATE":
		return yes("only what comes or changes is a release")
	case slices.Contains(exempt(), in.Namespace) || slices.Contains(a.Exempt, in.Namespace):
		return yes("the namespace is exempt")
	case !judged:
		return yes("no workload that releases are made of")
	case in.SubResource != "":
		// scale and status: autoscaling goes on in a freeze.
		return yes("subresource " + in.SubResource + " is free")
	}
	var now, was workload
	if err := json.Unmarshal(in.Object, &now); err != nil || len(now.Spec.Template) == 0 {
		return no(http.StatusBadRequest, "BadRequest", "breakwater: the object has no pod template that could be read")
	}
	if in.Operation == "UPDATE" && json.Unmarshal(in.OldObject, &was) == nil && same(now.Spec.Template, was.Spec.Template) {
		return yes("the pod template is unchanged")
	}
	return a.judge(ctx, in, now)
}

// judge asks the gate about a changed template.
func (a *Admission) judge(ctx context.Context, in Asked, now workload) Admitted {
	mark := now.Metadata.Annotations
	name := now.Metadata.Name
	if name == "" {
		name = in.Name
	}
	q := gate.Request{Service: service(now, name), Env: a.Env, Kind: gate.Kind(mark[AnnotationKind]), Ref: ref(now), Incident: mark[AnnotationFor], Attestation: mark[AnnotationProof]}
	sum := sha256.Sum256(now.Spec.Template)
	q.Once = clip("k8s/"+in.Namespace+"/"+name+"/"+hex.EncodeToString(sum[:12]), 256)
	proven, err := a.ran(ctx, in, now, name)
	if err != nil {
		a.log().Warn("whether it is a rollback cannot be seen", "namespace", in.Namespace, "name", name, "err", err)
	}
	if proven && (q.Kind == "" || q.Kind == gate.Rollback) {
		q.Kind, q.Seen = gate.Rollback, freeze.History
	}
	if q, err = q.Check(); err != nil {
		return no(http.StatusUnprocessableEntity, "Invalid", "breakwater: "+err.Error())
	}
	d, err := a.Ask(ctx, q, in.DryRun)
	if err != nil {
		a.log().Warn("no decision", "service", q.Service, "env", q.Env, "err", err)
		d = gate.Decision{Decision: gate.Unclear, ReasonCode: "no_answer", Reasons: []string{"The gate could not be asked, and no earlier answer stands in."}}
	}
	return a.said(q, d)
}

// said turns a decision into an answer. Where nothing is known the webhook's own
// settings rule, and the answer says so.
func (a *Admission) said(q gate.Request, d gate.Decision) Admitted {
	if d.Decision == gate.Unclear {
		want, flag := a.OnUnknown, "--on-unknown"
		if q.Seen == freeze.History {
			want, flag = a.OnUnknownRollback, "--on-unknown-rollback"
		}
		d.Decision, d.ReasonCode = gate.Deny, "unknown_denied"
		if want == "allow" {
			d.Decision, d.ReasonCode = gate.Allow, "unknown_allowed"
		}
		d.Reasons = append(slices.Clone(d.Reasons), fmt.Sprintf("Nothing is known; %s of this webhook asks for %s then.", flag, d.Decision))
	}
	audit := map[string]string{"decision": string(d.Decision), "reason-code": d.ReasonCode, "decision-id": d.DecisionID, "service": q.Service, "kind": string(q.Kind)}
	text := "breakwater: " + strings.Join(strings.Fields(Text(d)), " ")
	if d.Decision != gate.Allow {
		out := no(http.StatusForbidden, "Forbidden", clip(text, 1024))
		out.Audit = audit
		return out
	}
	out := Admitted{Allowed: true, Audit: audit}
	// What a reader of kubectl's output should know although it passes.
	if d.Would != "" || d.ReasonCode == "unknown_allowed" || d.ReasonCode == "require_canary" || d.ReasonCode == "override" {
		out.Warnings = []string{clip(text, 256)} // the API server cuts them there
	}
	return out
}

func no(code int, reason, text string) Admitted {
	return Admitted{Status: &Status{code, reason, text}, Audit: map[string]string{}}
}

// service is what a workload is called: by our label, by the usual one, by name.
func service(w workload, name string) string {
	for _, label := range []string{LabelService, labelName} {
		if v := w.Metadata.Labels[label]; v != "" {
			return v
		}
	}
	return name
}

// ref is what goes out: as annotated, or the image of the first container.
func ref(w workload) string {
	if v := w.Metadata.Annotations[AnnotationRef]; v != "" {
		return v
	}
	var t struct {
		Spec struct {
			Containers []struct {
				Image string `json:"image"`
			} `json:"containers"`
		} `json:"spec"`
	}
	if json.Unmarshal(w.Spec.Template, &t) != nil || len(t.Spec.Containers) == 0 || len(t.Spec.Containers[0].Image) > 256 {
		return ""
	}
	return t.Spec.Containers[0].Image
}

// ran reports whether the template is one the workload had before.
func (a *Admission) ran(ctx context.Context, in Asked, now workload, name string) (bool, error) {
	if a.History == nil || in.Operation != "UPDATE" {
		return false, nil
	}
	before, err := a.History.Templates(ctx, in.Resource.Resource, in.Namespace, name, now.Metadata.UID)
	if err != nil {
		return false, err
	}
	return slices.ContainsFunc(before, func(t json.RawMessage) bool { return same(t, now.Spec.Template) }), nil
}

// same compares pod templates, but for what the cluster itself writes into those
// it keeps.
func same(a, b json.RawMessage) bool {
	x, okA := template(a)
	y, okB := template(b)
	return okA && okB && reflect.DeepEqual(x, y)
}

func template(text json.RawMessage) (map[string]any, bool) {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	var t map[string]any
	if err := dec.Decode(&t); err != nil || t == nil {
		return nil, false
	}
	delete(t, "$patch") // of a ControllerRevision
	if meta, ok := t["metadata"].(map[string]any); ok {
		if labels, ok := meta["labels"].(map[string]any); ok {
			delete(labels, "pod-template-hash") // of a ReplicaSet
		}
		delete(meta, "creationTimestamp") // null, or left out
	}
	return t, true
}

func (a *Admission) log() *slog.Logger {
	if a.Log == nil {
		return slog.New(slog.DiscardHandler)
	}
	return a.Log
}
