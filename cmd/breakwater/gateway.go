package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/sync/errgroup"

	"breakwater/gateway"
	"breakwater/gateway/config"
	"breakwater/gateway/lease"
	"breakwater/gateway/plan"
	"breakwater/gateway/policy/fault"
	"breakwater/gateway/policy/retry"
	"breakwater/gateway/source"
	"breakwater/gateway/spool"
	"breakwater/gateway/toxic"
	"breakwater/internal/auth"
	"breakwater/internal/conf"
)

func newGateway(io streams) *cobra.Command {
	var set settings
	var name string
	cmd := &cobra.Command{
		Use:   "gateway",
		Short: "run the data plane alone",
		Long: "Serves traffic by the documents of --config, which it follows. Without control it\n" +
			"serves just the same, and keeps its log until control is back.",
		Example: "  breakwater gateway --config gw.yaml --control http://control:8081",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if set.config == "" {
				return exit(exitUsage, errors.New("--config: must name a file or directory of documents"))
			}
			return fail(runGateway(cmd.Context(), io, set, name, given(cmd.Flags())))
		},
	}
	f := cmd.Flags()
	set.configFlag(f)
	set.gatewayFlags(f)
	set.stateFlags(f)
	f.StringVar(&set.control, "control", env("CONTROL", ""), "base URL of control; empty: none (BREAKWATER_CONTROL)")
	f.StringVar(&set.token, "token", env("TOKEN", ""), "gateway token; empty: the one control left in the state directory (BREAKWATER_TOKEN)")
	host, _ := os.Hostname() // an unnamed machine gets an unnamed gateway
	set.toxiproxyFlags(f)
	f.StringVar(&name, "name", env("NAME", host), "name of this gateway in every record; one for each (BREAKWATER_NAME)")
	return cmd
}

// given reports which flags were set, by hand or by their variable.
func given(f *pflag.FlagSet) func(name string) bool {
	return func(name string) bool {
		_, byEnv := os.LookupEnv("BREAKWATER_" + strings.ToUpper(strings.ReplaceAll(name, "-", "_")))
		return byEnv || f.Changed(name)
	}
}

// fromDocuments fills in what flags left open. Documents that cannot be read
// yet leave the defaults: the gateway comes up and says what is wrong with them.
func (s *settings) fromDocuments(given func(string) bool) config.Spool {
	files, err := conf.Load(s.config)
	if err != nil {
		return config.Spool{}
	}
	var log conf.Log
	doc := config.Parse(files, &log).Gateway
	for _, x := range []struct {
		flag   string
		value  *string
		wanted string
	}{{"listen", &s.listen, doc.Listen}, {"admin", &s.admin, doc.Admin}, {"control", &s.control, doc.Control}, {"env", &s.env, doc.Env}} {
		if x.wanted != "" && !given(x.flag) {
			*x.value = x.wanted
		}
	}
	return doc.Spool
}

func runGateway(ctx context.Context, io streams, set settings, name string, given func(string) bool) error {
	log := newLog(io.err, "gateway").With("gateway", name)
	disk := set.fromDocuments(given)
	if disk.Dir == "" {
		disk.Dir = filepath.Join(set.stateDir, "spool")
	}
	data, err := listen("data", set.listen)
	if err != nil {
		return err
	}
	defer data.Close()
	admin, err := listen("admin", set.admin)
	if err != nil {
		return err
	}
	defer admin.Close()
	var toxics net.Listener
	if set.toxiproxy != "" {
		if toxics, err = listen("toxiproxy", set.toxiproxy); err != nil {
			return err
		}
		defer toxics.Close()
	}
	controlURL := ""
	if set.control != "" {
		controlURL = set.baseURL()
	}
	metrics := prometheus.NewRegistry()
	transport := clientTransport()
	defer transport.CloseIdleConnections()
	toControl := &http.Client{Transport: &tokenTransport{
		fixed: set.token, file: auth.GatewayTokenFile(set.stateDir), next: transport,
	}}

	sp, err := spool.Open(spool.Config{
		Dir: disk.Dir, MaxBytes: disk.MaxBytes, SyncEvery: disk.SyncEvery, Gateway: name, Env: set.env,
		Control: controlURL, Client: toControl, Rand: rand.Float64, Registerer: metrics, Log: log,
	})
	if err != nil {
		return err
	}
	faults := fault.NewTable(fault.Caps{})
	// Injected latencies are to be exact to less than the millisecond that the
	// runtime's timers count in.
	alarm, err := fault.NewAlarm()
	if err != nil {
		return err
	}
	defer alarm.Close()
	faults.SleepBy(alarm)
	var g *gateway.Gateway
	poller := lease.New(lease.Config{
		URL: controlURL, Client: toControl, Table: faults, HaltFile: filepath.Join(set.stateDir, "halt"), Rand: rand.Float64, Log: log,
		Protect: func(held []plan.Held) { g.Protect(held) },
		Receipt: func() plan.Receipt {
			r := plan.Receipt{Gateway: name, Boot: sp.Boot(), Tallies: g.Tallies()}
			r.ConfigRevision, r.ConfigHash = g.Revision()
			return r
		},
	})
	g = gateway.New(gateway.Config{
		Name: name, Env: set.env, Recorder: sp, Lines: retry.NewLines(io.out), Faults: faults, Switch: poller, Rand: rand.Float64,
		Metrics: metrics, Log: log,
		Stats: map[string]func() any{"spool": func() any { return sp.Stats() }, "plan": func() any { return poller.Stats() }},
	})
	// What passes allocates nothing, so the heap grows by what connections leave behind
	// when they are made. Where net/http is in front no cost could be measured.
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(40)
	}
	log.Info("gateway starts", "data", data.Addr().String(), "admin", admin.Addr().String(),
		"control", controlURL, "state_dir", set.stateDir, "env", set.env, "config", set.config)

	// The servers stop first, so that what they served is still recorded; then
	// the spool ships its last batch.
	keepCtx, stopKeeping := context.WithCancel(context.WithoutCancel(ctx))
	defer stopKeeping()
	var keep errgroup.Group
	keep.Go(func() error { return sp.Ship(keepCtx) })
	keep.Go(func() error { return poller.Run(keepCtx) })
	keep.Go(func() error { return g.Run(keepCtx) })
	keep.Go(func() error { haltOnSignal(keepCtx, poller); return nil })

	serving, sctx := errgroup.WithContext(ctx)
	// Whoever connects before the first documents are read waits in the socket's
	// queue and is not refused.
	read := make(chan struct{})
	serving.Go(func() error {
		select {
		case <-read:
			return g.Serve(sctx, data)
		case <-sctx.Done():
			return nil
		}
	})
	serving.Go(func() error { return g.ServeAdmin(sctx, admin) })
	if toxics != nil {
		log.Info("toxiproxy API", "address", toxics.Addr().String())
		serving.Go(func() error {
			return toxic.New(toxic.Config{Switch: faults, Alarm: alarm, Lease: set.toxicLease, Log: log}).Serve(sctx, toxics)
		})
	}
	serving.Go(func() error {
		return follow(sctx, set.config, g, log, sync.OnceFunc(func() {
			if err := unmapStart(); err != nil {
				log.Debug("pages of the start are kept", "err", err)
			}
			close(read)
		}))
	})
	err = serving.Wait()
	stopKeeping()
	err = errors.Join(err, keep.Wait())
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	return errors.Join(err, sp.Close(closing))
}

// follow applies each change of the documents; a bad one is refused and what
// serves stays. read is called after each attempt.
func follow(ctx context.Context, path string, g *gateway.Gateway, log *slog.Logger, read func()) error {
	src := source.File{Path: path, Warn: func(err error) { log.Warn("documents cannot be read", "err", err) }}
	return src.Follow(ctx, applier(g, log, read))
}

func applier(g *gateway.Gateway, log *slog.Logger, read func()) func(source.Document) error {
	return func(d source.Document) error {
		defer read()
		var mistakes conf.Log
		cfg := config.Parse(d.Files, &mistakes)
		for _, w := range mistakes.Warnings() {
			log.Warn("configuration warning", "warning", w.Error())
		}
		if !config.Loadable(&mistakes) {
			g.Refused(mistakes.Err())
			return mistakes.Err()
		}
		if len(cfg.Routes) == 0 {
			// A file that was cut off, or a directory that lost its mount, looks just
			// like this, and to serve it would answer everything with a 404.
			err := errors.New("no Route document: the gateway stays without configuration until there is one")
			if revision, _ := g.Revision(); revision != "" {
				err = fmt.Errorf("no Route document: the gateway keeps revision %s", revision)
			}
			g.Refused(err)
			return err
		}
		if err := g.Apply(*cfg); err != nil {
			return fmt.Errorf("apply the documents: %w", err)
		}
		return nil
	}
}

// haltOnSignal is the kill switch that needs neither network nor file: SIGUSR1.
func haltOnSignal(ctx context.Context, p *lease.Poller) {
	c := make(chan os.Signal, 1)
	signal.Notify(c, syscall.SIGUSR1)
	defer signal.Stop(c)
	for {
		select {
		case <-ctx.Done():
			return
		case <-c:
			p.Halt("SIGUSR1")
		}
	}
}
