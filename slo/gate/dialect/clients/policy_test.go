package clients

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"

	registration "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions"
	apiservercel "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/cel/environment"
	"sigs.k8s.io/yaml"
)

// fetch asks control as the CronJob of the sample does.
func fetch(t *testing.T, path string) []byte {
	t.Helper()
	req, err := http.NewRequest(http.MethodGet, gate(t)+"/api/v1/gate/kubernetes/"+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+os.Getenv("BREAKWATER_TEST_TOKEN"))
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s %s %v", path, resp.Status, b, err)
	}
	return b
}

// compile makes a policy into a validator as the API server's plugin does; that
// function of it is not exported.
func compile(t *testing.T, p registration.ValidatingAdmissionPolicy) validating.Validator {
	t.Helper()
	env, err := cel.NewCompositionEnv(cel.VariablesTypeName, environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion(), true))
	if err != nil {
		t.Fatal(err)
	}
	with := cel.OptionalVariableDeclarations{HasParams: true, HasAuthorizer: true, StrictCost: true}
	without := cel.OptionalVariableDeclarations{HasParams: true, StrictCost: true}
	c := cel.NewCompositedCompilerFromTemplate(env)
	for _, v := range p.Spec.Variables {
		if r := c.CompileAndStoreVariable(&validating.Variable{Name: v.Name, Expression: v.Expression}, with, environment.StoredExpressions); r.Error != nil {
			t.Fatalf("variable %s: %v", v.Name, r.Error)
		}
	}
	var conditions, validations, messages, audits []cel.ExpressionAccessor
	for i := range p.Spec.MatchConditions {
		conditions = append(conditions, (*matchconditions.MatchCondition)(&p.Spec.MatchConditions[i]))
	}
	for _, v := range p.Spec.Validations {
		validations = append(validations, &validating.ValidationCondition{Expression: v.Expression, Message: v.Message, Reason: v.Reason})
		messages = append(messages, &validating.MessageExpressionCondition{MessageExpression: v.MessageExpression})
	}
	for _, a := range p.Spec.AuditAnnotations {
		audits = append(audits, &validating.AuditAnnotationCondition{Key: a.Key, ValueExpression: a.ValueExpression})
	}
	stored := environment.StoredExpressions
	matcher := matchconditions.NewMatcher(c.CompileCondition(conditions, with, stored), p.Spec.FailurePolicy, "policy", "validate", p.Name)
	return validating.NewValidator(c.CompileCondition(validations, with, stored), matcher, c.CompileCondition(audits, with, stored), c.CompileCondition(messages, without, stored), p.Spec.FailurePolicy)
}

// bypass lets those through whom RBAC would let bypass the freeze of service order.
func bypass(yes bool) authorizer.Authorizer {
	return authorizer.AuthorizerFunc(func(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
		if yes && a.GetVerb() == "bypass" && a.GetAPIGroup() == "breakwater.dev" && a.GetResource() == "freezes" && a.GetName() == "order" {
			return authorizer.DecisionAllow, "", nil
		}
		return authorizer.DecisionNoOpinion, "", nil
	})
}

func TestValidatingAdmissionPolicy(t *testing.T) {
	var list struct {
		APIVersion string            `json:"apiVersion"`
		Kind       string            `json:"kind"`
		Items      []json.RawMessage `json:"items"`
	}
	if err := yaml.UnmarshalStrict(fetch(t, "policy"), &list); err != nil || len(list.Items) != 2 {
		t.Fatalf("%d items, %v", len(list.Items), err)
	}
	var policy registration.ValidatingAdmissionPolicy
	var binding registration.ValidatingAdmissionPolicyBinding
	if err := yaml.UnmarshalStrict(list.Items[0], &policy); err != nil {
		t.Fatal(err)
	}
	if err := yaml.UnmarshalStrict(list.Items[1], &binding); err != nil {
		t.Fatal(err)
	}
	if *policy.Spec.FailurePolicy != registration.Fail || *binding.Spec.ParamRef.ParameterNotFoundAction != registration.DenyAction || binding.Spec.PolicyName != policy.Name {
		t.Errorf("%+v, %+v", policy.Spec, binding.Spec)
	}
	for _, rule := range policy.Spec.MatchConstraints.ResourceRules {
		if got := strings.Join(rule.Resources, " "); got != "deployments statefulsets daemonsets" {
			t.Errorf("judges %s", got)
		}
	}
	validator := compile(t, policy)
	validate := func(params *corev1.ConfigMap, from, to *appsv1.Deployment, may bool) (denied bool, message string) {
		t.Helper()
		kind := schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}
		resource := schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
		op := admission.Update
		var old runtime.Object = from
		if from == nil {
			op, old = admission.Create, nil
		}
		attributes := admission.NewAttributesRecord(to, old, kind, "shop", "order", resource, "", op, nil, false, &user.DefaultInfo{Name: "ci"})
		r := validator.Validate(t.Context(), resource, &admission.VersionedAttributes{Attributes: attributes, VersionedKind: kind, VersionedObject: to, VersionedOldObject: old},
			params, &corev1.Namespace{}, apiservercel.RuntimeCELCostBudget, bypass(may))
		for _, d := range r.Decisions {
			if d.Evaluation == validating.EvalError {
				t.Errorf("the policy errs: %s", d.Message)
			}
			denied, message = denied || d.Action == validating.ActionDeny, d.Message
		}
		for _, a := range r.AuditAnnotations {
			if a.Error != "" {
				t.Errorf("its audit errs: %s", a.Error)
			}
		}
		return denied, message
	}
	freezes := func(query string) *corev1.ConfigMap {
		t.Helper()
		var m corev1.ConfigMap
		if err := yaml.UnmarshalStrict(fetch(t, "freezes?env=prod"+query), &m); err != nil {
			t.Fatal(err)
		}
		if m.Name != binding.Spec.ParamRef.Name || m.Namespace != binding.Spec.ParamRef.Namespace {
			t.Errorf("the binding reads another object than %s/%s", m.Namespace, m.Name)
		}
		return &m
	}
	v1, v2 := deployment("order:v1"), deployment("order:v2")
	more := v1.DeepCopy()
	*more.Spec.Replicas = 9
	other := deployment("points:v2")
	other.Name, other.Labels = "points", map[string]string{"breakwater.dev/service": "points"}
	state(t, "normal")
	if denied, message := validate(freezes(""), v1, v2, false); denied {
		t.Errorf("all is well: %s", message)
	}
	state(t, "frozen")
	for name, tt := range map[string]struct {
		from, to *appsv1.Deployment
		may      bool
		params   *corev1.ConfigMap
		want     bool
	}{
		"a new template":                     {v1, v2, false, freezes(""), true},
		"a new deployment":                   {nil, v2, false, freezes(""), true},
		"more replicas":                      {v1, more, false, freezes(""), false},
		"whoever may bypass":                 {v1, v2, true, freezes(""), false},
		"a service nobody knows":             {nil, other, false, freezes(""), true},
		"the same, where it was asked for":   {nil, other, false, freezes("&on_unknown=allow"), false},
		"a parameter object that is empty":   {v1, v2, false, &corev1.ConfigMap{}, true},
		"another's bypass does not help him": {nil, other, true, freezes(""), true},
	} {
		denied, message := validate(tt.params, tt.from, tt.to, tt.may)
		if denied != tt.want || denied && !strings.HasPrefix(message, "breakwater does not let service ") {
			t.Errorf("%s: denied %v (%s), want %v", name, denied, message, tt.want)
		}
		if name == "a new template" && !strings.Contains(message, "decision d-") {
			t.Errorf("it does not name its decision: %s", message)
		}
	}
	state(t, "blind")
	if denied, _ := validate(freezes(""), v1, v2, false); !denied {
		t.Error("nothing known: let through")
	}
	if denied, message := validate(freezes("&on_unknown=allow"), v1, v2, false); denied {
		t.Errorf("nothing known, and asked for: %s", message)
	}
}
