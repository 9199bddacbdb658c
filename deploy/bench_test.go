package deploy_test

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// ours is the bench's wrapper, run with a directory of its own.
func ours(t *testing.T, binary, listen, upstream, scenario string, more ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("bench/ours")
	cmd.Env = append(os.Environ(), "TMPDIR="+t.TempDir(), "BREAKWATER="+binary, "OURS_ADDR="+listen, "UPSTREAM_ADDR="+upstream, "BENCH_SCEN="+scenario)
	cmd.Env = append(cmd.Env, more...)
	cmd.Stderr = t.Output()
	return cmd
}

func TestBenchDocumentsAreGood(t *testing.T) {
	name, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	// It stands where the gateway would, and says with what it was started.
	echo := filepath.Join(t.TempDir(), "echo")
	if err := os.WriteFile(echo, []byte("#!/bin/sh\nprintf '%s\\n' \"$@\"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, scenario := range []string{"plain", "policy", "outage", "delay"} {
		t.Run(scenario, func(t *testing.T) {
			out, err := ours(t, echo, "127.0.0.1:18100", "127.0.0.1:18000", scenario).Output()
			if err != nil {
				t.Fatal(err)
			}
			args := strings.Split(strings.TrimSpace(string(out)), "\n")
			known(t, args)
			var documents string
			for i, a := range args {
				if a == "--config" {
					documents = args[i+1]
				}
			}
			if out, err := exec.Command(name, "validate", documents).CombinedOutput(); err != nil {
				t.Errorf("%v: %s", err, out)
			}
			text, err := os.ReadFile(documents)
			if err != nil {
				t.Fatal(err)
			}
			if retries := strings.Contains(string(text), "enabled: true"); retries != (scenario == "policy" || scenario == "outage") {
				t.Errorf("retries: %v", retries)
			}
		})
	}
	if err := ours(t, echo, "127.0.0.1:18100", "127.0.0.1:18000", "other").Run(); err == nil {
		t.Error("an unknown scenario is taken")
	}
}

// The wrapper is the gateway, to the last signal, and delays what it is told to.
func TestBenchDelays(t *testing.T) {
	name, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "ok") }))
	defer up.Close()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	listen := free.Addr().String()
	_ = free.Close()
	cmd := ours(t, name, listen, up.Listener.Addr().String(), "delay", "BENCH_DELAY_MS=100")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Process.Kill()
	deadline := time.Now().Add(20 * time.Second)
	for {
		start := time.Now()
		resp, err := http.Get("http://" + listen + "/")
		took := time.Since(start)
		if err == nil {
			_ = resp.Body.Close()
			if resp.StatusCode == 200 && took >= 100*time.Millisecond && took < time.Second {
				break
			}
		}
		if time.Now().After(deadline) {
			t.Fatalf("no answer was 100 ms late: %v after %v", err, took)
		}
		time.Sleep(50 * time.Millisecond)
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("ended with %v", err)
	}
}
