package pgtest

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestEachTestHasADatabaseOfItsOwn(t *testing.T) {
	a, b := Pool(t), Pool(t)
	if _, err := a.Exec(t.Context(), `insert into gateway (env, gateway, boot, seq, until_at, stopped, last_ack)
		values ('prod', 'gw', 'b', 1, now(), false, now())`); err != nil {
		t.Fatal(err)
	}
	var n int
	if err := b.QueryRow(t.Context(), `select count(*) from gateway`).Scan(&n); err != nil || n != 0 {
		t.Errorf("the other database has %d gateways, %v", n, err)
	}
}

// TestMain lets the binary play another test binary, to be killed.
func TestMain(m *testing.M) {
	if os.Getenv("PGTEST_TEST_VICTIM") != "" {
		s, err := shared()
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Println("ready", s.cluster.Pid(), filepath.Dir(s.cluster.Dir()))
		_, _ = io.Copy(io.Discard, os.Stdin) // until we are killed
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func TestAKilledTestBinaryLeavesNothing(t *testing.T) {
	_ = Cluster(t) // skips where there is no PostgreSQL
	victim := exec.Command(os.Args[0], "-test.run=^$")
	victim.Env = append(os.Environ(), "PGTEST_TEST_VICTIM=1")
	in, err := victim.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := victim.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := victim.Start(); err != nil {
		t.Fatal(err)
	}
	var pid int
	var dir string
	if _, err := fmt.Fscanf(out, "ready %d %s\n", &pid, &dir); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(dir, "pgtest") {
		t.Fatalf("the cluster is in %s", dir)
	}
	if err := victim.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = victim.Wait() // says that it was killed
	// The directory goes last, after the process.
	deadline := time.Now().Add(20 * time.Second)
	for {
		if _, err := os.Stat(dir); errors.Is(err, os.ErrNotExist) {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s is still there", dir)
		}
		time.Sleep(20 * time.Millisecond)
	}
	if err := syscall.Kill(pid, 0); err == nil && runs(pid) {
		t.Errorf("postmaster %d still runs", pid)
	}
}

// runs tells a process that runs from one that only waits to be buried.
func runs(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return errors.Is(err, os.ErrNotExist) && !exists("/proc/self")
	}
	_, state, _ := strings.Cut(string(b), ") ")
	return !strings.HasPrefix(state, "Z")
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
