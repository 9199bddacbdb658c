package dialect

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"breakwater/internal/reply"
	"breakwater/slo/gate"
)

// Names in the cluster.
const (
	policyName  = "breakwater-release-freeze"
	freezesName = "breakwater-freezes"
	// Labels and annotations of a workload.
	LabelService     = "breakwater.dev/service"
	LabelGate        = "breakwater.dev/gate"        // of a namespace: enforce
	AnnotationKind   = "breakwater.dev/change-kind" // what is proven or not
	AnnotationRef    = "breakwater.dev/ref"
	AnnotationProof  = "breakwater.dev/attestation"
	AnnotationFor    = "breakwater.dev/incident"
	labelName        = "app.kubernetes.io/name"
	defaultNamespace = "breakwater"
)

// serviceCEL is the service of a workload, as service of the webhook has it.
const serviceCEL = `has(object.metadata.labels) && '` + LabelService + `' in object.metadata.labels ? object.metadata.labels['` + LabelService + `'] : ` +
	`(has(object.metadata.labels) && '` + labelName + `' in object.metadata.labels ? object.metadata.labels['` + labelName + `'] : object.metadata.name)`

// Policy serves GET /api/v1/gate/kubernetes/policy: a ValidatingAdmissionPolicy and
// its binding, for kubectl apply. With them the API server refuses by itself what
// the parameter object says is frozen, and nobody is called when a pod template
// changes. What such a policy cannot do: see a rollback in the history, count the
// uses of an override, or tell that the parameter is old. Whoever may "bypass"
// freezes.breakwater.dev by RBAC passes, for just those cases.
func (d *Desk) Policy(w http.ResponseWriter, r *http.Request) {
	namespace := r.URL.Query().Get("namespace")
	if namespace == "" {
		namespace = defaultNamespace
	}
	type object = map[string]any
	rule := object{"apiGroups": []string{"apps"}, "apiVersions": []string{"v1"}, "operations": []string{"CREATE", "UPDATE"},
		// Without */scale and */status: autoscaling goes on in a freeze.
		"resources": []string{"deployments", "statefulsets", "daemonsets"}, "scope": "Namespaced"}
	policy := object{"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy", "metadata": object{"name": policyName},
		"spec": object{
			"failurePolicy": "Fail",
			"paramKind":     object{"apiVersion": "v1", "kind": "ConfigMap"},
			"matchConstraints": object{
				"resourceRules": []any{rule},
				// Only namespaces that opted in, and never the system's or our own.
				"namespaceSelector": object{"matchLabels": object{LabelGate: "enforce"}, "matchExpressions": []any{
					object{"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": append(exempt(), namespace)}}},
			},
			"matchConditions": []any{object{"name": "template-changes", "expression": "request.operation == 'CREATE' || object.spec.template != oldObject.spec.template"}},
			"variables": []any{
				object{"name": "service", "expression": serviceCEL},
				object{"name": "known", "expression": "has(params.data) && variables.service in params.data"},
				object{"name": "verdict", "expression": "variables.known ? params.data[variables.service] : (has(params.data) && 'unknown.answer' in params.data ? params.data['unknown.answer'] : 'deny')"},
				object{"name": "why", "expression": "has(params.data) && (variables.service + '.why') in params.data ? params.data[variables.service + '.why'] : 'nothing is known of it'"},
			},
			"validations": []any{object{
				"expression": "variables.verdict == 'allow' || authorizer.group('breakwater.dev').resource('freezes').name(variables.service).check('bypass').allowed()",
				// A message must fit in one line.
				"messageExpression": "'breakwater does not let service ' + variables.service + ' out: ' + variables.why",
				"reason":            "Forbidden"}},
			"auditAnnotations": []any{object{"key": "verdict", "valueExpression": "variables.service + ': ' + variables.verdict + ', ' + variables.why"}},
		}}
	binding := object{"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding", "metadata": object{"name": policyName},
		"spec": object{"policyName": policyName, "validationActions": []string{"Deny", "Audit"},
			// Without the parameter nothing is known, and that is no allow.
			"paramRef": object{"name": freezesName, "namespace": namespace, "parameterNotFoundAction": "Deny"}}}
	reply.JSON(w, http.StatusOK, object{"apiVersion": "v1", "kind": "List", "items": []any{policy, binding}})
}

// Freezes serves GET /api/v1/gate/kubernetes/freezes?env&namespace&on_unknown: the
// parameter object of that policy, for kubectl apply, every minute.
func (d *Desk) Freezes(w http.ResponseWriter, r *http.Request) {
	v := r.URL.Query()
	env, namespace, unknown := v.Get("env"), v.Get("namespace"), v.Get(onUnknown)
	if namespace == "" {
		namespace = defaultNamespace
	}
	if unknown == "" {
		unknown = "deny"
	}
	if env == "" || unknown != "allow" && unknown != "deny" {
		refuse(w, fmt.Errorf("env: must be given; %s: must be allow or deny", onUnknown))
		return
	}
	now := d.cfg.Now().UTC()
	data := map[string]string{"unknown.answer": unknown, "written.at": now.Format(time.RFC3339), "env": env}
	for _, service := range d.services(r, env) {
		q := question{gate.Request{Service: service, Env: env, Kind: gate.Feature, Standing: true}, v.Get(onUnknown)}
		a := q.settle(d.cfg.Gate.Answer(r.Context(), q.Request))
		data[service] = string(a.Decision)
		data[service+".why"] = clip(strings.Join(strings.Fields(Text(a)), " "), 500)
	}
	reply.JSON(w, http.StatusOK, map[string]any{"apiVersion": "v1", "kind": "ConfigMap",
		"metadata": map[string]any{"name": freezesName, "namespace": namespace}, "data": data})
}

// exempt are the namespaces that are never asked about: a cluster that cannot
// repair itself in a freeze stays broken.
func exempt() []string { return []string{"kube-system", "kube-public", "kube-node-lease"} }
