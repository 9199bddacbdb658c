package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"breakwater/internal/demo"
	"breakwater/internal/pglocal"
)

func bin(t testing.TB) string {
	t.Helper()
	path, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// slow marks a test that runs real processes for minutes; true: it has run, see plain.
func slow(t *testing.T) (held bool) {
	t.Helper()
	if testing.Short() {
		t.Skip("real processes for minutes: part of make test, not of make check")
	}
	return plain(t)
}

// process is one role as its own process, to be killed and started again. Its
// listeners are the test's: the port outlives it, as under serve.
type process struct {
	t         *testing.T
	args      []string
	env       []string
	listeners map[string]net.Listener
	logs      *os.File
	cmd       *exec.Cmd
}

func (p *process) start() {
	p.t.Helper()
	cmd := exec.Command(bin(p.t), p.args...)
	cmd.Env = append(os.Environ(), p.env...)
	cmd.Stdout, cmd.Stderr = p.logs, p.logs
	var fds []string
	for name, l := range p.listeners {
		file, err := l.(*net.TCPListener).File()
		if err != nil {
			p.t.Fatal(err)
		}
		defer file.Close()
		fds = append(fds, fmt.Sprintf("%s=%d", name, 3+len(cmd.ExtraFiles)))
		cmd.ExtraFiles = append(cmd.ExtraFiles, file)
	}
	cmd.Env = append(cmd.Env, listenersEnv+"="+strings.Join(fds, ","))
	// Whatever happens to the test binary, no process of ours outlives it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	p.cmd = cmd
}

// kill is kill -9; it returns when the process is gone.
func (p *process) kill() {
	if p.cmd == nil {
		return
	}
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait() // says it was killed
	p.cmd = nil
}

// stop ends the process in good order.
func (p *process) stop() {
	p.t.Helper()
	if p.cmd == nil {
		return
	}
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		p.t.Errorf("stop %s: %v", p.args[0], err)
	}
	if err := p.cmd.Wait(); err != nil {
		p.t.Errorf("%s ended with %v, want 0", p.args[0], err)
	}
	p.cmd = nil
}

// world is breakwater as real processes over a database and a shop of the test.
type world struct {
	t       *testing.T
	dir     string
	pg      *pglocal.Cluster
	pgCfg   pglocal.Config
	dsn     string
	db      *pgxpool.Pool
	shop    *demo.Shop
	answers *answerBook // every answer the traffic got
	book    *demo.Ledger
	gateway *process
	control *process
	url     map[string]string
	began   time.Time
}

type worldConfig struct {
	oneIn int                          // natural failures, see demo.ShopConfig
	docs  func(docs map[string][]byte) // changes the demo's documents
	// everywhere: the gateway listens on all addresses of this machine, so that
	// shops which share it can be told apart by theirs.
	everywhere bool
}

// newWorld starts the database, the shop, control and a gateway, and waits until
// both are ready.
func newWorld(t *testing.T, cfg worldConfig) *world {
	t.Helper()
	w := &world{t: t, dir: t.TempDir(), answers: &answerBook{}, url: map[string]string{}, began: time.Now()}
	w.book = demo.NewLedger(w.answers)
	w.pgCfg = pglocal.Config{Dir: filepath.Join(w.dir, "pg"), Settings: []string{"fsync=off", "shared_buffers=64MB"}, Log: slog.New(slog.DiscardHandler)}
	w.startDatabase()
	t.Cleanup(func() {
		if err := w.pg.Stop(); err != nil {
			t.Error(err)
		}
		_ = os.RemoveAll(w.pg.Dir()) // elsewhere, where its user cannot reach the test's own directory
	})
	db, err := pgxpool.New(t.Context(), w.dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	w.db = db

	if w.shop, err = demo.Open(demo.ShopConfig{Seed: 7, Ledger: w.book, OneIn: cfg.oneIn}); err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(w.dir, "config")
	docs, err := demo.Documents(demo.DocumentConfig{Env: "test", Endpoints: w.shop.Endpoints, Now: time.Now().Add(24 * time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	docs["gateway.yaml"] = patient(t, docs["gateway.yaml"])
	if cfg.docs != nil {
		cfg.docs(docs)
	}
	if err := os.MkdirAll(config, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range docs {
		if err := os.WriteFile(filepath.Join(config, name), text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	listeners := map[string]net.Listener{}
	for _, name := range []string{"data", "admin", "control"} {
		address := "127.0.0.1:0"
		if cfg.everywhere && name == "data" {
			address = "0.0.0.0:0"
		}
		l, err := net.Listen("tcp4", address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close() })
		listeners[name] = l
		w.url[name] = fmt.Sprintf("http://127.0.0.1:%d", l.Addr().(*net.TCPAddr).Port)
	}
	common := []string{"--state-dir", filepath.Join(w.dir, "state"), "--env", "test", "--config", config}
	w.control = w.process("control", map[string]net.Listener{"control": listeners["control"]},
		append([]string{"control", "--open-loopback", "--control", listeners["control"].Addr().String()}, common...)...)
	w.gateway = w.process("gateway", map[string]net.Listener{"data": listeners["data"], "admin": listeners["admin"]},
		append([]string{"gateway", "--name", "gateway-1", "--control", w.url["control"],
			"--listen", listeners["data"].Addr().String(), "--admin", listeners["admin"].Addr().String()}, common...)...)
	w.shop.SetGateway(w.url["data"])
	w.background(func(ctx context.Context) error { return w.shop.Run(ctx) })
	w.control.start()
	w.gateway.start()
	w.ready("control", "admin")
	return w
}

// patient gives every request of the demo's documents so much time that a machine
// which stands still for seconds makes none fail.
func patient(t *testing.T, doc []byte) []byte {
	t.Helper()
	text := string(doc)
	for _, limit := range [][2]string{
		{"connect_timeout: 500ms", "connect_timeout: 10s"},
		{"timeout: 9s", "timeout: 60s"}, {"timeout: 3s", "timeout: 60s"},
		{"per_try_timeout: 2700ms", "per_try_timeout: 30s"}, {"per_try_timeout: 800ms", "per_try_timeout: 15s"},
	} {
		if !strings.Contains(text, limit[0]) {
			t.Fatalf("the demo's documents have no %q any more", limit[0])
		}
		text = strings.ReplaceAll(text, limit[0], limit[1])
	}
	return []byte(text)
}

func (w *world) startDatabase() {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	pg, err := pglocal.Start(ctx, w.pgCfg)
	if err != nil {
		w.t.Fatal(err)
	}
	w.pg, w.dsn = pg, pg.DSN()
}

// process prepares a role of the world; it is killed when the test ends.
func (w *world) process(name string, listeners map[string]net.Listener, args ...string) *process {
	w.t.Helper()
	logs, err := os.OpenFile(filepath.Join(w.dir, name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		w.t.Fatal(err)
	}
	p := &process{t: w.t, args: args, env: []string{"DATABASE_URL=" + w.dsn}, listeners: listeners, logs: logs}
	w.t.Cleanup(func() {
		p.kill()
		_ = logs.Close()
		if w.t.Failed() {
			w.t.Logf("last lines of %s:\n%s", name, tail(logs.Name()))
		}
	})
	return p
}

func tail(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(lines[max(0, len(lines)-15):], "\n")
}

// background runs do until the test ends, or until the returned func is called.
func (w *world) background(do func(context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := do(ctx); err != nil {
			w.t.Errorf("in the background: %v", err)
		}
	}()
	stop = sync.OnceFunc(func() { cancel(); <-done })
	w.t.Cleanup(stop)
	return stop
}

// traffic sends rate requests a second until the returned func is called, which
// waits for the last answer.
func (w *world) traffic(prefix string, rate float64) (stop func()) {
	tr := demo.NewTraffic(demo.TrafficConfig{Seed: 7, Gateway: w.url["data"], Rate: rate, Ledger: w.book, Prefix: prefix})
	return w.background(tr.Run)
}

func (w *world) ready(names ...string) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), time.Minute)
	defer cancel()
	for _, name := range names {
		if err := awaitOK(ctx, w.url[name]+"/readyz"); err != nil {
			w.t.Fatal(err)
		}
	}
}

// request asks one of the listeners and decodes a JSON answer into out.
func (w *world) request(method, listener, path, body string, out any) (status int, text string) {
	w.t.Helper()
	req, err := http.NewRequest(method, w.url[listener]+path, strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	client := &http.Client{Timeout: 20 * time.Second}
	defer client.CloseIdleConnections()
	res, err := client.Do(req)
	if err != nil {
		return 0, err.Error()
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		return res.StatusCode, err.Error()
	}
	if out != nil {
		if err := json.Unmarshal(b, out); err != nil {
			w.t.Fatalf("%s %s answered %d %q: %v", method, path, res.StatusCode, b, err)
		}
	}
	return res.StatusCode, string(b)
}

// await polls until ok holds, for at most d.
func (w *world) await(what string, d time.Duration, ok func() bool) {
	w.t.Helper()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(d); !ok(); <-tick.C {
		if time.Now().After(end) {
			w.t.Fatalf("after %s still not: %s", d, what)
		}
	}
}
