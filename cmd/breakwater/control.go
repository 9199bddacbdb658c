package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"breakwater/injector"
	"breakwater/internal/auth"
	"breakwater/internal/pglocal"
	"breakwater/internal/store"
	"breakwater/migrations"
	"breakwater/slo"
	"breakwater/slo/gate"
	"breakwater/slo/gate/dialect"
	"breakwater/slo/ingest"
	"breakwater/slo/now"
	"breakwater/slo/report"
	"breakwater/slo/webhook"
	"breakwater/web"
)

// controlOptions are the flags of control alone.
type controlOptions struct {
	openLoopback  bool
	hosts         []string
	zone          string
	tokenFile     string // takes the first admin token instead of standard error
	pages         string // where people reach control, for links in messages
	signin        signinOptions
	gatewayAdmins []string // admin ports that the pages ask for their figures
	probeHosts    []string // that hypotheses may ask
}

func newControl(io streams) *cobra.Command {
	var set settings
	var opt controlOptions
	cmd := &cobra.Command{
		Use:   "control",
		Short: "run control alone: budgets, drills, gate, pages and API over one PostgreSQL",
		Long: "Several controls may run on one database: each due drill still starts once, and a run\n" +
			"whose control dies is never resumed.",
		Example: "  DATABASE_URL=postgres://... breakwater control --control 0.0.0.0:8081 --config /etc/breakwater",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return fail(runControl(cmd.Context(), io, set, opt)) },
	}
	f := cmd.Flags()
	set.configFlag(f)
	set.controlListenFlag(f)
	set.stateFlags(f)
	set.dbFlag(f)
	f.BoolVar(&opt.openLoopback, "open-loopback", false, "let whoever asks from this machine, on a loopback listener, in as operator; for the demo")
	f.StringSliceVar(&opt.hosts, "host", nil, "a name under which pages may be asked for, beside localhost and plain addresses; may be repeated")
	f.StringVar(&opt.tokenFile, "first-token-file", "", "file that takes the first admin token, readable by its owner alone; empty: it is printed once")
	f.StringVar(&opt.pages, "pages", env("PAGES", ""), "base URL at which people reach these pages, for links in messages; empty: no links (BREAKWATER_PAGES)")
	opt.signin.flags(f)
	f.StringSliceVar(&opt.gatewayAdmins, "gateway-admin", strings.Split(env("GATEWAY_ADMINS", ""), ","), "address of a gateway's admin port that the pages of admins ask; may be repeated (BREAKWATER_GATEWAY_ADMINS)")
	f.StringSliceVar(&opt.probeHosts, "probe-host", strings.Split(env("PROBE_HOSTS", ""), ","), "a host that probes of hypotheses may ask: name, name:port or .suffix; may be repeated (BREAKWATER_PROBE_HOSTS)")
	f.StringVar(&opt.zone, "zone", env("ZONE", "UTC"), "IANA time zone of the times on pages (BREAKWATER_ZONE)")
	return cmd
}

// control is the role as it runs.
type control struct {
	set   settings
	opt   controlOptions
	log   *slog.Logger
	io    streams
	db    *pgxpool.Pool
	store *store.Store
	guard *auth.Guard
	slo   *slo.Evaluator
	gate  *gate.Gate
	// releases are the freezes, and the incidents people are told of.
	releases   releases
	hooks      webhook.Secret  // of those that sign what they send; nil: there is none
	pagesAt    string          // base URL of links in messages; "": none
	github     *dialect.GitHub // nil: no App is configured
	situations *now.Desk       // who is hit now, and why
	engine     *injector.Engine
	days       days
	pages      *web.Server
	signin     signin
	system     *pageSystem // what the pages of admins look at
	ingest     *ingest.Handler
	papers     byFiles[paperwork]
	checked    byFiles[error]
	examined   byFiles[examined]
	metrics    *prometheus.Registry
	// writing is held while the files of --config are written, kept as a revision or
	// taken in; imported is the hash of those that were taken in last.
	writing  sync.Mutex
	imported string
	// ready is set once the schema is there and the first tokens are made.
	ready atomic.Bool
}

func runControl(ctx context.Context, io streams, set settings, opt controlOptions) error {
	log := newLog(io.err, "control")
	zone, err := time.LoadLocation(opt.zone)
	if err != nil {
		return exit(exitUsage, fmt.Errorf("--zone: must be an IANA name such as Europe/Berlin: %w", err))
	}
	l, err := listen("control", set.control)
	if err != nil {
		return err
	}
	defer l.Close()
	if err := os.MkdirAll(set.stateDir, 0o711); err != nil {
		return fmt.Errorf("make the state directory: %w", err)
	}
	dsn := set.db
	if dsn == "auto" {
		pg, err := pglocal.Start(ctx, pglocal.Config{Dir: filepath.Join(set.stateDir, "pg"), Log: log})
		if err != nil {
			return err
		}
		defer func() {
			if err := pg.Stop(); err != nil {
				log.Error("stop the database", "err", err)
			}
		}()
		dsn = pg.DSN()
	}
	// The pool connects when it is used: control starts, and shows that it
	// waits, while the database is still away.
	db, err := store.Open(ctx, dsn)
	if err != nil {
		return exit(exitUsage, fmt.Errorf("--db: %w", err))
	}
	defer db.Close()
	c := &control{set: set, opt: opt, log: log, io: io, db: db, store: store.New(db), metrics: prometheus.NewRegistry()}
	if err := c.build(zone, l); err != nil {
		return err
	}
	log.Info("control starts", "control", l.Addr().String(), "state_dir", set.stateDir, "env", set.env, "config", set.config)
	return c.run(ctx, l)
}

func (c *control) build(zone *time.Location, l net.Listener) error {
	c.metrics.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	loopback := false
	if a, ok := l.Addr().(*net.TCPAddr); ok {
		loopback = a.IP.IsLoopback()
	}
	if c.opt.openLoopback && !loopback {
		return exit(exitUsage, fmt.Errorf("--open-loopback: must go with a loopback address, got %s", l.Addr()))
	}
	var err error
	if c.pagesAt, err = pagesURL(c.opt.pages); err != nil {
		return exit(exitUsage, fmt.Errorf("--pages: %w", err))
	}
	if err := c.newSignin(); err != nil {
		return err
	}
	c.guard = auth.New(auth.Config{Tokens: c.store, Audit: c.store, Hosts: c.opt.hosts, OpenLoopback: c.opt.openLoopback, Log: c.log,
		People: c.signin.people, Secure: c.signin.door.Secure,
		Page: func(w http.ResponseWriter, r *http.Request, status int, detail string) {
			c.pages.Refused(w, r, status, detail)
		}})
	if c.hooks, err = hookSecret(); err != nil {
		return exit(exitUsage, err)
	}
	c.releases = c.newReleases(func() []slo.Status { return c.slo.Statuses() })
	c.slo = slo.NewEvaluator(c.store, slo.Config{Log: c.log,
		PolicyFor: func(service, env string) slo.Policy { return c.releases.book.PolicyFor(service, env).Levels }})
	c.metrics.MustRegister(report.NewMetrics(c.slo))
	c.situations = c.newNowDesk()
	c.gate = gate.New(gate.Config{Source: c.slo, Keeper: c.store, Book: c.releases.book, Slots: c.store, Log: c.log})
	if c.github, err = c.newGitHub(); err != nil {
		return exit(exitUsage, err)
	}
	c.ingest = ingest.New(ingest.Config{Store: c.store, Limit: c.slo.Limit, Log: c.log, Metrics: c.metrics,
		Audit: func(ctx context.Context, action, object, detail string) error {
			return c.store.Audit(ctx, auth.Entry{Actor: auth.From(ctx).Name, Action: action, Object: object, Detail: detail})
		}})
	probes := newProber(c.opt.probeHosts)
	c.engine = injector.New(injector.Config{
		Probe: probes.ask, MayProbe: probes.may, Ready: func() bool { return !c.slo.Health().LastAt.IsZero() },
		Ledger: c.ledger(), Budgets: c.barred(), Measures: c.planMeasures, Env: c.set.env, Log: c.log,
		Audit: func(ctx context.Context, actor, action, object, detail string) error {
			return c.store.Audit(ctx, auth.Entry{Actor: actor, Action: action, Object: object, Detail: detail})
		},
		Actor:     func(ctx context.Context) string { return auth.From(ctx).Name },
		Covers:    func(ctx context.Context, service string) bool { return auth.From(ctx).Covers(service) },
		Preflight: c.preflight, Route: c.route, Core: c.core, Alerts: c.alerts, Owns: c.owns, Worse: c.worse,
	})
	c.days, c.system = c.newDays(), c.newSystem(l)
	pages, err := web.New(c.looking(web.Config{
		Ledger: pageLedger{c.slo, c.store}, Drills: c.engine.Desk(), Gate: pageGate{c.slo, c.releases.book}, Env: c.set.env, Zone: zone,
		MayLift: func(r *http.Request) bool { return auth.From(r.Context()).May(auth.Operator) },
		Hosts:   c.opt.hosts, Actor: func(r *http.Request) string { return auth.From(r.Context()).Name }, Log: c.log,
	}))
	if err != nil {
		return err
	}
	c.pages = pages
	return nil
}

// run serves until ctx ends. Pages and API answer from the first moment; what
// needs the schema begins when it is there.
func (c *control) run(ctx context.Context, l net.Listener) error {
	// What pages and evaluations of hundreds of services leave behind is collected at thrice
	// what lives and not at twice: pages wait for collectors, and control has few at a time.
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(200)
	}
	server := &http.Server{
		Handler: c.routes(), ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 60 * time.Second, WriteTimeout: 60 * time.Second,
		IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10, ErrorLog: slog.NewLogLogger(c.log.Handler(), slog.LevelWarn),
	}
	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("serve on %s: %w", l.Addr(), err)
		}
		return nil
	})
	g.Go(func() error {
		<-gctx.Done()
		stop, cancel := context.WithTimeout(context.WithoutCancel(gctx), 3*time.Second)
		defer cancel()
		if err := server.Shutdown(stop); err != nil {
			return server.Close() // streams and long polls are cut; their owners ask again
		}
		return nil
	})
	g.Go(func() error { return c.pages.Run(gctx) })
	g.Go(func() error {
		if !c.prepare(gctx) {
			return nil
		}
		work, wctx := errgroup.WithContext(gctx)
		work.Go(func() error { return c.slo.Run(wctx) })
		work.Go(func() error { return c.engine.Run(wctx) })
		work.Go(func() error { return c.days.run(wctx) })
		work.Go(func() error { return c.releases.run(wctx) })
		work.Go(func() error { return c.runDialects(wctx) })
		work.Go(func() error { return c.situations.Run(wctx) })
		work.Go(func() error { return c.keep(wctx) })
		work.Go(func() error { return documentDesk{c}.follow(wctx) })
		work.Go(func() error { return c.tidySessions(wctx) })
		work.Go(func() error { return c.watchHealth(wctx) })
		return work.Wait()
	})
	return g.Wait()
}

// keepEvery is how often the ledger is looked after: partitions, hours, retention.
const keepEvery = time.Minute

func (c *control) keep(ctx context.Context) error {
	tick := time.NewTicker(keepEvery)
	defer tick.Stop()
	for {
		if now, err := c.store.Now(ctx); err == nil {
			_, err := c.store.Keep(ctx, now)
			_, sums := c.store.PruneSums(ctx, now)
			if err = errors.Join(err, sums); err != nil && ctx.Err() == nil {
				c.log.Error("the ledger is not looked after", "err", err)
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// prepare brings the schema up, makes the first tokens and imports the
// documents, again and again until the database lets it; false: ctx ended first.
func (c *control) prepare(ctx context.Context) bool {
	for {
		err := c.prepareOnce(ctx)
		if err == nil {
			c.ready.Store(true)
			return true
		}
		if ctx.Err() != nil {
			return false
		}
		c.log.Error("not ready yet", "err", err)
		select {
		case <-ctx.Done():
			return false
		case <-time.After(time.Second):
		}
	}
}

func (c *control) prepareOnce(ctx context.Context) error {
	if err := migrations.Up(ctx, c.db); err != nil {
		return err
	}
	now, err := c.store.Now(ctx)
	if err != nil {
		return err
	}
	secret, err := auth.FirstAdmin(ctx, c.store, now)
	if err != nil {
		return err
	}
	switch {
	case secret != "" && c.opt.tokenFile != "":
		if err := auth.WriteSecret(c.opt.tokenFile, secret); err != nil {
			return err
		}
	case secret != "":
		fmt.Fprintf(c.io.err, "first admin token, shown this once: %s\n", secret)
	}
	if err := c.firstPerson(ctx); err != nil {
		return err
	}
	if _, err := auth.LocalGateway(ctx, c.store, c.set.stateDir, now); err != nil {
		return err
	}
	c.guard.Forget()
	return c.importDocuments(ctx, now)
}
