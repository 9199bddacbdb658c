package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"breakwater/slo/gate"
	"breakwater/slo/gate/dialect"
)

// webhookOptions are the flags of webhook alone.
type webhookOptions struct {
	listen, cert, key          string
	exempt                     []string
	onUnknown, unknownRollback string
	memory                     gateMemory
}

func newWebhook(io streams) *cobra.Command {
	var set settings
	var opt webhookOptions
	cmd := &cobra.Command{
		Use:   "webhook",
		Short: "run the admission webhook of Kubernetes over TLS",
		Long: "Asks control's gate about each Deployment, StatefulSet and DaemonSet that comes or whose pod\n" +
			"template changes, in namespaces that opted in. The certificate is read anew when its file\n" +
			"changes. While control is away its last signed answer to the same question stands in for as\n" +
			"long as that says; after that nothing is known, and --on-unknown and --on-unknown-rollback rule.",
		Example: "  BREAKWATER_TOKEN=... breakwater webhook --cert tls.crt --key tls.key --control http://control:8081 --env prod",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return fail(runWebhook(cmd.Context(), io, set, opt)) },
	}
	f := cmd.Flags()
	set.clientFlags(f)
	f.Lookup("token").Usage = "API token of role gateway (BREAKWATER_TOKEN)"
	f.Lookup("env").Usage = "environment this cluster is (BREAKWATER_ENV)"
	f.StringVar(&opt.listen, "listen", env("LISTEN", ":8443"), "address of the webhook (BREAKWATER_LISTEN)")
	f.StringVar(&opt.cert, "cert", env("WEBHOOK_CERT", "tls.crt"), "file of the certificate (BREAKWATER_WEBHOOK_CERT)")
	f.StringVar(&opt.key, "key", env("WEBHOOK_KEY", "tls.key"), "file of its private key (BREAKWATER_WEBHOOK_KEY)")
	f.StringSliceVar(&opt.exempt, "exempt", nil, "a namespace that is let be, beside kube-* and the one of this pod; may be repeated")
	f.StringVar(&opt.onUnknown, "on-unknown", "deny", "what becomes of a change of which nothing is known: allow or deny")
	f.StringVar(&opt.unknownRollback, "on-unknown-rollback", "allow", "the same for a rollback that the history of the workload proves")
	f.StringVar(&set.stateDir, "state-dir", env("STATE_DIR", defaultStateDir()), "directory that keeps the last signed answers (BREAKWATER_STATE_DIR)")
	f.StringVar(&opt.memory.key, "gate-key", env("GATE_KEY", ""), "public key that answers must be signed with; empty: the one control shows first (BREAKWATER_GATE_KEY)")
	f.BoolVar(&opt.memory.off, "no-fallback", false, "never go by an earlier answer")
	return cmd
}

func runWebhook(ctx context.Context, io streams, set settings, opt webhookOptions) error {
	log := newLog(io.err, "webhook")
	for _, check := range []error{set.checkControl(), oneOf("on-unknown", opt.onUnknown, "allow", "deny"), oneOf("on-unknown-rollback", opt.unknownRollback, "allow", "deny")} {
		if check != nil {
			return check
		}
	}
	if set.env == "" {
		return exit(exitUsage, errors.New("--env: must name the environment this cluster is"))
	}
	cert := &certificate{cert: opt.cert, key: opt.key, log: log}
	if err := cert.load(); err != nil {
		return exit(exitUsage, err)
	}
	opt.memory.dir = filepath.Join(set.stateDir, "webhook")
	if own := podNamespace(); own != "" {
		opt.exempt = append(opt.exempt, own)
	}
	admission := opt.admission(io, &set, log)
	cluster, in, err := dialect.InCluster()
	if err != nil {
		return err
	}
	if in {
		admission.History = cluster
	}
	l, err := listen("webhook", opt.listen)
	if err != nil {
		return err
	}
	log.Info("webhook starts", "webhook", l.Addr().String(), "control", set.baseURL(), "env", set.env, "exempt", opt.exempt, "sees_history", in,
		"on_unknown", opt.onUnknown, "on_unknown_rollback", opt.unknownRollback)
	return serveWebhook(ctx, l, admission, cert, log)
}

func (o *webhookOptions) admission(io streams, set *settings, log *slog.Logger) *dialect.Admission {
	return &dialect.Admission{Ask: o.ask(io, set), Env: set.env, Exempt: o.exempt, OnUnknown: o.onUnknown, OnUnknownRollback: o.unknownRollback, Log: log}
}

// ask asks control, and goes by its last signed answer while it is away. A dry run
// leaves nothing behind.
func (o *webhookOptions) ask(io streams, set *settings) func(context.Context, gate.Request, bool) (gate.Decision, error) {
	return func(ctx context.Context, r gate.Request, dryRun bool) (gate.Decision, error) {
		// The API server waits ten seconds by default, and must hear from us before.
		ctx, cancel := context.WithTimeout(ctx, 4*time.Second)
		defer cancel()
		d, err := gate.AskPlatform(ctx, set.baseURL(), set.token, r, dryRun)
		if dryRun {
			return d, err
		}
		return o.memory.use(ctx, io, set, r, d, err)
	}
}

func serveWebhook(ctx context.Context, l net.Listener, admission http.Handler, cert *certificate, log *slog.Logger) error {
	mux := http.NewServeMux()
	mux.Handle("/admission", admission)
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok\n")) })
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 15 * time.Second, WriteTimeout: 30 * time.Second, IdleTimeout: 2 * time.Minute,
		MaxHeaderBytes: 64 << 10, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelWarn),
		TLSConfig: &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: cert.get}}
	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		if err := server.ServeTLS(l, "", ""); !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("serve on %s: %w", l.Addr(), err)
		}
		return nil
	})
	g.Go(func() error { return cert.run(gctx) })
	g.Go(func() error {
		<-gctx.Done()
		stop, cancel := context.WithTimeout(context.WithoutCancel(gctx), 3*time.Second)
		defer cancel()
		if err := server.Shutdown(stop); err != nil {
			return server.Close()
		}
		return nil
	})
	return g.Wait()
}

// podNamespace is the namespace this pod runs in; "": it is none.
func podNamespace() string {
	if v := os.Getenv("POD_NAMESPACE"); v != "" {
		return v
	}
	b, err := os.ReadFile("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
	if err != nil {
		return ""
	}
	return string(b)
}
