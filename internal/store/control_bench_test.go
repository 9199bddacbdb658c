package store

import (
	"bufio"
	"bytes"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	osexec "os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// The program whose memory BenchmarkBudgetOfAMonth measures over its month.
var benchControl = flag.String("slo.control", "", "path of the breakwater binary that is run as control over the month; empty: none")

// controlMemory runs control over the database, reads its pages and its API for a
// while, and returns the most memory it had, in bytes.
func controlMemory(b *testing.B, dsn string) int64 {
	b.Helper()
	out, in, err := os.Pipe()
	if err != nil {
		b.Fatal(err)
	}
	defer out.Close()
	cmd := osexec.Command(*benchControl, "control", "--control", "127.0.0.1:0", "--open-loopback", "--state-dir", b.TempDir(), "--env", "prod", "--db", dsn)
	var log bytes.Buffer
	cmd.Stdout, cmd.Stderr = in, in
	err = cmd.Start()
	_ = in.Close()
	if err != nil {
		b.Fatal(err)
	}
	defer func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		if err := cmd.Wait(); err != nil {
			b.Errorf("control ended with %v\n%s", err, log.String())
		}
	}()
	addr := ""
	lines := bufio.NewScanner(io.TeeReader(out, &log))
	for addr == "" && lines.Scan() {
		_, rest, _ := strings.Cut(lines.Text(), `"control starts"`)
		_, rest, _ = strings.Cut(rest, `"control":"`)
		addr, _, _ = strings.Cut(rest, `"`)
	}
	go func() {
		for lines.Scan() {
		}
	}()
	get := func(path string) int {
		res, err := http.Get("http://" + addr + path)
		if err != nil {
			return 0
		}
		defer res.Body.Close()
		_, _ = io.Copy(io.Discard, res.Body)
		return res.StatusCode
	}
	for end := time.Now().Add(2 * time.Minute); get("/readyz") != http.StatusOK; time.Sleep(200 * time.Millisecond) {
		if time.Now().After(end) {
			b.Fatalf("control is not ready\n%s", log.String())
		}
	}
	for range 40 {
		for _, path := range []string{"/", "/services/order", "/api/v1/slos", "/api/v1/gate/decision?service=order&env=prod", "/metrics"} {
			if code := get(path); code != http.StatusOK {
				b.Errorf("%s answers %d", path, code)
			}
		}
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", cmd.Process.Pid))
	if err != nil {
		b.Skip("no /proc here")
	}
	_, rest, _ := strings.Cut(string(status), "VmHWM:")
	kib, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
	if err != nil {
		b.Fatal(err)
	}
	return kib << 10
}
