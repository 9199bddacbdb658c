package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"breakwater/internal/demo"
	"breakwater/internal/store"
	"breakwater/migrations"
)

// demoOptions are the flags of demo alone.
type demoOptions struct {
	rate    float64
	seed    uint64
	answers string        // file that takes every answer of the generator
	outage  time.Duration // until the scripted outage begins; negative: never
	drills  bool
}

// maxRate is more than one machine can play shop, gateway and callers for.
const maxRate = 20_000

func newDemo(io streams) *cobra.Command {
	var set settings
	var opt demoOptions
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "run everything on this machine: a shop, its traffic, budgets, a game day, an outage",
		Long: "Starts a private PostgreSQL, gateway, control with its pages, a shop of four services\n" +
			"and steady traffic. A drill runs by itself within the first two minutes; an outage of\n" +
			"the points service spends its budget, so that its releases freeze. DEMO_SECONDS=n stops\n" +
			"after n seconds. A second start goes on with the same history.",
		Example: "  breakwater demo\n  DEMO_SECONDS=300 breakwater demo --state-dir ./demo",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx := cmd.Context()
			if !(opt.rate > 0 && opt.rate <= maxRate) { // a NaN is neither
				return exit(exitUsage, fmt.Errorf("--rate: must be more than 0 and at most %d requests a second, got %v", maxRate, opt.rate))
			}
			if text, ok := os.LookupEnv("DEMO_SECONDS"); ok {
				seconds, err := strconv.Atoi(text)
				if err != nil || seconds <= 0 {
					return exit(exitUsage, fmt.Errorf("DEMO_SECONDS: must be a whole number of seconds above 0, got %q", text))
				}
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, time.Duration(seconds)*time.Second)
				defer cancel()
			}
			return fail(runDemo(ctx, io, set, opt))
		},
	}
	f := cmd.Flags()
	f.StringVar(&set.listen, "listen", env("LISTEN", "127.0.0.1:8080"), "address of the data plane; another free port where it is taken (BREAKWATER_LISTEN)")
	f.StringVar(&set.admin, "admin", env("ADMIN", "127.0.0.1:15000"), "address of the gateway's admin port (BREAKWATER_ADMIN)")
	set.controlListenFlag(f)
	f.StringVar(&set.stateDir, "state-dir", env("STATE_DIR", defaultStateDir()), "directory for spool, private database and locks (BREAKWATER_STATE_DIR)")
	f.StringVar(&set.env, "env", env("ENV", "demo"), "environment the demo plays in (BREAKWATER_ENV)")
	// DATABASE_URL may be another program's: the demo writes only where it is told to.
	f.StringVar(&set.db, "db", env("DB", "auto"), "PostgreSQL DSN, or auto for a private cluster (BREAKWATER_DB)")
	f.Float64Var(&opt.rate, "rate", demo.DefaultRate, "requests a second of the shop's callers together")
	f.Uint64Var(&opt.seed, "seed", 1, "seed of everything that looks like chance")
	f.StringVar(&opt.answers, "answers", "", "file that takes every answer the generator got, one JSON line each")
	f.DurationVar(&opt.outage, "outage-after", demo.Script().After, "when the scripted outage begins; negative: never")
	f.BoolVar(&opt.drills, "drills", true, "run the demo's game days")
	return cmd
}

func runDemo(ctx context.Context, io streams, set settings, opt demoOptions) error {
	started := time.Now()
	dir, err := filepath.Abs(set.stateDir)
	if err != nil {
		return fmt.Errorf("find the state directory: %w", err)
	}
	// The demo keeps beside, not among, what a real installation left here.
	set.stateDir = filepath.Join(dir, "demo")
	set.config = filepath.Join(set.stateDir, "config")
	if err := os.MkdirAll(set.config, 0o711); err != nil {
		return fmt.Errorf("make the demo's directory: %w", err)
	}
	log := newLog(io.err, "demo")
	answers, closeAnswers, err := openAnswers(opt.answers)
	if err != nil {
		return err
	}
	defer closeAnswers()

	shop, err := demo.Open(demo.ShopConfig{Seed: opt.seed, Ledger: answers})
	if err != nil {
		return err
	}
	defer shop.Close()
	h, err := openHouse(ctx, set, houseOptions{
		log: log, logDir: filepath.Join(set.stateDir, "log"), free: true, openLoopback: true,
		// A demo's machine may lose its last second at a power cut.
		dbSettings: []string{"synchronous_commit=off", "shared_buffers=64MB"},
	})
	if err != nil {
		return err
	}
	defer h.Close()
	if err := writeDocuments(set, shop, opt, started); err != nil {
		return err
	}
	if err := backfill(ctx, h.dsn, set, opt, started); err != nil {
		return err
	}
	shop.SetGateway(h.url("data"))

	// Stopped inside out: callers, then the gateway with its last records, then
	// control; the shop answers until the gateway is gone.
	var background sync.WaitGroup
	shopCtx, stopShop := context.WithCancel(context.WithoutCancel(ctx))
	houseCtx, stopHouse := context.WithCancel(context.WithoutCancel(ctx))
	defer func() {
		stopHouse()
		background.Wait()
	}()
	houseDone := make(chan struct{})
	background.Go(func() { complain(log, "shop", shop.Run(shopCtx)) })
	background.Go(func() { defer close(houseDone); complain(log, "house", h.Run(houseCtx)) })
	background.Go(func() { <-houseDone; stopShop() })

	readyCtx, cancel := context.WithTimeout(ctx, 60*time.Second)
	defer cancel()
	if err := h.ready(readyCtx); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return fmt.Errorf("%w; see %s", err, filepath.Join(set.stateDir, "log"))
	}
	fmt.Fprintf(io.out, "breakwater demo\n%s", h.addresses())
	fmt.Fprintf(io.out, "admin token    in %s\n", h.adminToken())
	fmt.Fprintf(io.out, "first drill    %s UTC, within two minutes\n", demo.FirstDrill(started).Format("15:04:05"))
	fmt.Fprintf(io.out, "try            breakwater gate order --control %s\nready after %.1f s, Ctrl-C stops everything\n",
		h.url("control"), time.Since(started).Seconds())

	var busy sync.WaitGroup
	traffic := demo.NewTraffic(demo.TrafficConfig{
		Seed: opt.seed, Gateway: h.url("data"), Rate: opt.rate, Ledger: answers,
		Prefix: fmt.Sprintf("demo-%x", started.UnixMilli()),
	})
	busy.Go(func() { complain(log, "traffic", traffic.Run(ctx)) })
	if opt.outage >= 0 {
		script := demo.Script()
		script.After = opt.outage
		busy.Go(func() { complain(log, "outage", script.Run(ctx, shop, log)) })
	}
	<-ctx.Done()
	busy.Wait()
	return nil
}

func complain(log *slog.Logger, part string, err error) {
	if err != nil && !errors.Is(err, context.Canceled) {
		log.Error("part of the demo ended", "part", part, "err", err)
	}
}

func writeDocuments(set settings, shop *demo.Shop, opt demoOptions, now time.Time) error {
	cfg := demo.DocumentConfig{Env: set.env, Endpoints: shop.Endpoints, Now: now}
	if err := demo.Write(set.config, cfg); err != nil {
		return err
	}
	if opt.drills {
		return nil
	}
	if err := os.Remove(filepath.Join(set.config, "drills.yaml")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("leave out the drills: %w", err)
	}
	return nil
}

// backfill gives the ledger its past, once.
func backfill(ctx context.Context, dsn string, set settings, opt demoOptions, now time.Time) error {
	db, err := pgxpool.New(ctx, dsn)
	if err != nil {
		return fmt.Errorf("open the database: %w", err)
	}
	defer db.Close()
	if err := migrations.Up(ctx, db); err != nil {
		return err
	}
	return demo.Backfill(ctx, store.New(db), demo.HistoryConfig{Seed: opt.seed, Env: set.env, Until: now, Rate: opt.rate})
}

// openAnswers opens the generator's book, in memory alone where path is empty.
func openAnswers(path string) (_ *demo.Ledger, done func(), err error) {
	if path == "" {
		return demo.NewLedger(nil), func() {}, nil
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, nil, fmt.Errorf("open the file of answers: %w", err)
	}
	ledger := demo.NewLedger(file)
	return ledger, func() {
		_ = ledger.Flush() // nothing more can be done with what a full disk refused
		_ = file.Close()
	}, nil
}
