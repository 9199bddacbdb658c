package dialect

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"breakwater/internal/auth"
	"breakwater/slo"
)

type tokenStore = auth.Tokens

// tokens are those of a guard that is real; the rest of a store no guard asks for.
type tokens struct {
	tokenStore
	list []auth.Token
}

func (l tokens) Tokens(context.Context) ([]auth.Token, error) { return l.list, nil }

// The products' own code asks the dialects, over HTTP and through the guard: Argo
// Rollouts' web metric provider, Flagger's webhook caller, the API server's policy
// evaluator and its check of webhook answers. They are a module of their own.
func TestProductsOwnClients(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles Kubernetes: part of make test, not of make check")
	}
	const secret = "bw_test-of-the-dialects"
	w := newWorld(slo.Normal)
	guard := auth.New(auth.Config{Tokens: tokens{list: []auth.Token{{Name: "ci", Role: auth.Pipeline, Hash: auth.HashOf(secret), ExpiresAt: time.Now().Add(time.Hour)}}}})
	routes := w.routes()
	admission := w.admission()
	admission.History = past{templates: []string{`{"metadata":{"labels":{"app":"order","pod-template-hash":"7d9"}},"spec":{"containers":[{"name":"order","image":"order:v0","resources":{}}]}}`}}
	mux := http.NewServeMux()
	mux.Handle("/admission", admission)
	mux.Handle("/api/v1/gate/argo", ArgoAlways(guard.Require(auth.Pipeline)(routes)))
	mux.Handle("/", guard.Require(auth.Pipeline)(routes))
	var away atomic.Bool
	mux.HandleFunc("/state", func(rw http.ResponseWriter, r *http.Request) {
		level := r.FormValue("level")
		away.Store(level == "away")
		switch level {
		case "blind", "away":
			w.set(slo.Normal)
			w.blind()
		default:
			w.set(slo.Level(level))
		}
	})
	srv := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if away.Load() && r.URL.Path != "/state" {
			panic(http.ErrAbortHandler) // as a control that dies
		}
		mux.ServeHTTP(rw, r)
	}))
	defer srv.Close()
	// Compiling all that the products import takes minutes, vetting it too: it is done
	// in the time that no other test wants. For what they do here they need not be fast.
	binary := filepath.Join(t.TempDir(), "clients.test")
	args := []string{"go", "test", "-c", "-o", binary, "-vet=off", "-ldflags=-s -w"}
	for _, host := range []string{"k8s.io", "sigs.k8s.io", "github.com", "cloud.google.com", "google.golang.org", "go.opentelemetry.io"} {
		args = append(args, "-gcflags="+host+"/...=-N -l -dwarf=false")
	}
	build := exec.Command("../../../../.ci/idle", append(args, ".")...)
	build.Dir = "clients"
	build.Env = append(os.Environ(), "GOWORK=off", "CGO_ENABLED=0", "GOFLAGS=-trimpath")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("compile the products' clients: %v\n%s", err, out)
	}
	cmd := exec.Command(binary)
	cmd.Dir = "clients"
	cmd.Env = append(os.Environ(), "BREAKWATER_TEST_GATE="+srv.URL, "BREAKWATER_TEST_TOKEN="+secret)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}
