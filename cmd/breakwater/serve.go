package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"breakwater/internal/lockfile"
	"breakwater/internal/pglocal"
)

func newServe(io streams) *cobra.Command {
	var set settings
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "run gateway and control on this machine, as two child processes",
		Long: "Runs gateway and control as two child processes of this one; killing one never\n" +
			"touches the other, and each is started again. Without a DSN a private PostgreSQL\n" +
			"is kept in the state directory, reachable by a Unix socket only.",
		Example: "  breakwater serve --config /etc/breakwater",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if set.config == "" {
				return exit(exitUsage, errors.New("--config: must name a file or directory of documents"))
			}
			log := newLog(io.err, "serve")
			h, err := openHouse(cmd.Context(), set, houseOptions{log: log})
			if err != nil {
				return fail(err)
			}
			defer h.Close()
			fmt.Fprint(io.out, h.addresses())
			return fail(h.Run(cmd.Context()))
		},
	}
	f := cmd.Flags()
	set.configFlag(f)
	set.gatewayFlags(f)
	set.toxiproxyFlags(f)
	set.controlListenFlag(f)
	set.stateFlags(f)
	set.dbFlag(f)
	return cmd
}

// fail gives an error the code of an internal one, unless it carries its own.
func fail(err error) error {
	if _, ok := errors.AsType[*exitError](err); ok || err == nil {
		return err
	}
	return exit(exitInternal, err)
}

// house is what serve and demo keep running: a database where none was given,
// and the two roles as children.
type house struct {
	set       settings
	log       *slog.Logger
	lock      *lockfile.Lock
	pg        *pglocal.Cluster // nil: a DSN was given
	pgConfig  pglocal.Config
	dsn       string
	listeners map[string]net.Listener
	control   *child
	gateway   *child
}

type houseOptions struct {
	log *slog.Logger
	// logDir takes the children's output, one file each; "" leaves it on ours.
	logDir string
	// free takes another port of loopback where the wished one is in use.
	free bool
	// openLoopback lets whoever asks from this machine see the pages.
	openLoopback bool
	dbSettings   []string
}

// openHouse locks the state directory, starts the database and takes the ports.
// Nothing serves before Run.
func openHouse(ctx context.Context, set settings, opt houseOptions) (_ *house, err error) {
	dir, err := filepath.Abs(set.stateDir)
	if err != nil {
		return nil, fmt.Errorf("find the state directory: %w", err)
	}
	set.stateDir = dir
	h := &house{set: set, log: opt.log, dsn: set.db, listeners: map[string]net.Listener{}}
	defer func() {
		if err != nil {
			h.Close()
		}
	}()
	if h.lock, err = lockState(dir, "serve"); err != nil {
		return nil, err
	}
	wanted := map[string]string{"data": set.listen, "admin": set.admin, "control": set.control}
	if set.toxiproxy != "" {
		wanted["toxiproxy"] = set.toxiproxy
	}
	for name, addr := range wanted {
		l, err := net.Listen("tcp", addr)
		if err != nil && opt.free {
			l, err = net.Listen("tcp", "127.0.0.1:0")
		}
		if err != nil {
			return nil, fmt.Errorf("listen for %s on %s: %w", name, addr, err)
		}
		h.listeners[name] = l
	}
	if h.dsn == "auto" {
		h.pgConfig = pglocal.Config{Dir: filepath.Join(dir, "pg"), Settings: opt.dbSettings, Log: opt.log}
		h.pg, err = pglocal.Start(ctx, h.pgConfig)
		if err != nil {
			return nil, err
		}
		h.dsn = h.pg.DSN()
	}
	controlOut, err := childOutput(opt.logDir, "control")
	if err != nil {
		return nil, err
	}
	gatewayOut, err := childOutput(opt.logDir, "gateway")
	if err != nil {
		return nil, err
	}
	common := []string{"--state-dir", dir, "--env", set.env, "--config", set.config}
	controlArgs := append([]string{"control", "--control", h.addr("control"), "--gateway-admin", h.addr("admin")}, common...)
	if opt.openLoopback {
		controlArgs = append(controlArgs, "--open-loopback")
	}
	if opt.logDir != "" { // nobody sees what control prints
		controlArgs = append(controlArgs, "--first-token-file", h.adminToken())
	}
	h.control = &child{
		name: "control", args: controlArgs, env: []string{"DATABASE_URL=" + h.dsn}, // a DSN may hold a password: not in ps
		listeners: map[string]net.Listener{"control": h.listeners["control"]},
		output:    controlOut, grace: 10 * time.Second, log: opt.log,
	}
	h.gateway = &child{
		name:      "gateway",
		args:      append([]string{"gateway", "--name", "gateway-1", "--listen", h.addr("data"), "--admin", h.addr("admin"), "--control", h.url("control")}, common...),
		listeners: map[string]net.Listener{"data": h.listeners["data"], "admin": h.listeners["admin"]},
		output:    gatewayOut, grace: 40 * time.Second, log: opt.log,
	}
	if l := h.listeners["toxiproxy"]; l != nil {
		h.gateway.args = append(h.gateway.args, "--toxiproxy", h.addr("toxiproxy"), "--toxiproxy-lease", set.toxicLease.String())
		h.gateway.listeners["toxiproxy"] = l
	}
	return h, nil
}

// adminToken is the file that holds the first admin token, where the logs of
// control go to a file.
func (h *house) adminToken() string { return filepath.Join(h.set.stateDir, "first-admin.token") }

func (h *house) addr(name string) string { return h.listeners[name].Addr().String() }

// url is how this machine reaches the listener.
func (h *house) url(name string) string {
	addr := h.listeners[name].Addr().(*net.TCPAddr)
	host := "127.0.0.1"
	if addr.IP != nil && !addr.IP.IsUnspecified() {
		host = addr.IP.String()
	}
	return "http://" + net.JoinHostPort(host, fmt.Sprint(addr.Port))
}

func (h *house) addresses() string {
	text := fmt.Sprintf("pages and API  %s\ndata plane     %s\ngateway admin  %s\n", h.url("control"), h.url("data"), h.url("admin"))
	if h.listeners["toxiproxy"] != nil {
		text += fmt.Sprintf("toxiproxy API  %s\n", h.url("toxiproxy"))
	}
	return text + fmt.Sprintf("state          %s\n", h.set.stateDir)
}

// Run keeps both roles alive until ctx ends, then stops them in order: the
// gateway first, so that its last records still find control.
func (h *house) Run(ctx context.Context) error {
	gatewayCtx, stopGateway := context.WithCancel(context.WithoutCancel(ctx))
	controlCtx, stopControl := context.WithCancel(context.WithoutCancel(ctx))
	defer stopGateway()
	defer stopControl()
	var g errgroup.Group
	gone := make(chan struct{})
	g.Go(func() error { return h.keepDatabase(controlCtx) })
	g.Go(func() error { return h.control.Run(controlCtx) })
	g.Go(func() error { defer close(gone); return h.gateway.Run(gatewayCtx) })
	<-ctx.Done()
	stopGateway()
	<-gone
	stopControl()
	return g.Wait()
}

// keepDatabase starts the private database again when it ends by itself. Until
// then the gateway serves on and keeps its records.
func (h *house) keepDatabase(ctx context.Context) error {
	if h.pg == nil {
		return nil
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-h.pg.Done():
		}
		h.log.Error("the private database ended, starting it again")
		_ = h.pg.Stop() // it has ended; this gives its lock back
		pg, err := pglocal.Start(ctx, h.pgConfig)
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			h.log.Error("the private database does not start", "err", err)
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(5 * time.Second):
			}
			continue
		}
		h.pg = pg
	}
}

// Close gives back what openHouse took, the database last.
func (h *house) Close() {
	for _, l := range h.listeners {
		_ = l.Close()
	}
	for _, c := range []*child{h.control, h.gateway} {
		if c != nil {
			c.output.close()
		}
	}
	if h.pg != nil {
		if err := h.pg.Stop(); err != nil {
			h.log.Error("stop the database", "err", err)
		}
	}
	h.lock.Release()
}

// ready waits until both roles answer on /readyz.
func (h *house) ready(ctx context.Context) error {
	for _, url := range []string{h.url("admin") + "/readyz", h.url("control") + "/readyz"} {
		if err := awaitOK(ctx, url); err != nil {
			return err
		}
	}
	return nil
}

// awaitOK asks url until it answers 200, or ctx ends.
func awaitOK(ctx context.Context, url string) error {
	client := &http.Client{Transport: clientTransport(), Timeout: 2 * time.Second}
	defer client.CloseIdleConnections()
	for {
		var last error
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return fmt.Errorf("ask %s: %w", url, err)
		}
		if res, err := client.Do(req); err == nil {
			_ = res.Body.Close()
			if res.StatusCode == http.StatusOK {
				return nil
			}
			last = fmt.Errorf("%s answered %s", url, res.Status)
		} else {
			last = err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for %s: %w", url, last)
		case <-time.After(50 * time.Millisecond):
		}
	}
}
