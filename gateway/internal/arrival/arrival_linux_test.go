package arrival

import (
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"time"
)

// pair is a connection over loopback.
func pair(t testing.TB) (ours, theirs *net.TCPConn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	a, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	b, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = a.Close(), b.Close() })
	_ = a.SetDeadline(time.Now().Add(30 * time.Second))
	return a.(*net.TCPConn), b.(*net.TCPConn)
}

// busy is a machine on which a reader is woken after a while: when wake is done.
type busy struct {
	syscall.RawConn
	wake func()
}

func (b busy) Read(f func(fd uintptr) bool) error {
	b.wake()
	return b.RawConn.Read(f)
}

// stampedRead reads until the kernel has begun to stamp, which it may do a moment
// after it was asked.
func stampedRead(t *testing.T, r *Reader, send func()) (late time.Duration) {
	t.Helper()
	var p [16]byte
	for range 10_000 {
		send()
		n, late, err := r.Read(p[:], time.Time{})
		if n == 0 || err != nil {
			t.Fatal(n, err)
		}
		if late > 0 {
			return late
		}
	}
	t.Fatal("the kernel stamps nothing")
	return 0
}

func TestReadTellsHowLateItIs(t *testing.T) {
	const slept = 20 * time.Millisecond
	ours, theirs := pair(t)
	r := New(ours)
	send := func() {
		if _, err := theirs.Write([]byte("x")); err != nil {
			t.Error(err)
		}
	}
	stampedRead(t, r, send)

	var came time.Time
	r.raw = busy{r.raw, func() {
		send()
		for came = time.Now(); time.Since(came) < slept; { // nobody runs us meanwhile
		}
	}}
	var p [16]byte
	called := time.Now()
	n, late, err := r.Read(p[:], called)
	if most := time.Since(called); n != 1 || err != nil || late < slept || late > most {
		t.Errorf("%d bytes, %v late, %v; want 1, between %v and %v", n, late, err, slept, most)
	}
	// It counts from since on: what came before had to wait for something else.
	n, late, err = r.Read(p[:], time.Now().Add(time.Hour))
	if n != 1 || err != nil || late != 0 {
		t.Errorf("%d bytes, %v late, %v; want 1, in time", n, late, err)
	}
}

func TestLateWithinReason(t *testing.T) {
	since := time.Now()
	for _, tt := range []struct{ late, passed, want time.Duration }{
		{3 * time.Second, time.Millisecond, time.Millisecond},
		{time.Millisecond, time.Second, time.Millisecond},
		{-time.Hour, time.Second, 0}, // the wall clock was set back
		{time.Second, -time.Second, 0},
	} {
		if got := within(tt.late, since.Add(tt.passed), since); got != tt.want {
			t.Errorf("%v late, %v after: %v, want %v", tt.late, tt.passed, got, tt.want)
		}
	}
	if got := within(time.Hour, since, time.Time{}); got != time.Hour {
		t.Errorf("since ever: %v", got)
	}
}

// A Reader ends as the connection's own Read does, and goes on after a deadline.
func TestReadEnds(t *testing.T) {
	ours, theirs := pair(t)
	r, p := New(ours), make([]byte, 16)
	_ = ours.SetReadDeadline(time.Unix(1, 0))
	if n, _, err := r.Read(p, time.Time{}); n != 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("past the deadline: %d, %v", n, err)
	}
	_ = ours.SetReadDeadline(time.Now().Add(30 * time.Second))
	stampedRead(t, r, func() { _, _ = theirs.Write([]byte("x")) })
	if n, late, err := r.Read(nil, time.Time{}); n != 0 || late != 0 || err != nil {
		t.Errorf("into nothing: %d, %v, %v", n, late, err)
	}
	r.Stop()
	if _, err := theirs.Write([]byte("plain")); err != nil {
		t.Fatal(err)
	}
	if n, err := ours.Read(p); string(p[:n]) != "plain" || err != nil {
		t.Errorf("read %q, %v", p[:n], err)
	}
	_ = theirs.CloseWrite()
	if n, _, err := r.Read(p, time.Time{}); n != 0 || err != io.EOF {
		t.Errorf("at the end: %d, %v, want EOF", n, err)
	}
	_ = ours.Close()
	if n, _, err := r.Read(p, time.Time{}); n != 0 || !errors.Is(err, net.ErrClosed) {
		t.Errorf("closed: %d, %v", n, err)
	}

	ours, theirs = pair(t)
	r = New(ours)
	_ = theirs.SetLinger(0)
	_ = theirs.Close()
	if n, _, err := r.Read(p, time.Time{}); n != 0 || !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("reset: %d, %v", n, err)
	}
}

// One is for a peer's address, which recvmsg may give and a stream has none of.
func TestStampedReadAllocatesOnce(t *testing.T) {
	ours, theirs := pair(t)
	r, x, p := New(ours), []byte("x"), make([]byte, 16)
	send := func() { _, _ = theirs.Write(x) }
	stampedRead(t, r, send)
	if got := testing.AllocsPerRun(100, func() {
		send()
		if _, _, err := r.Read(p, time.Time{}); err != nil {
			t.Fatal(err)
		}
	}); got > 1 {
		t.Errorf("%v allocations a read", got)
	}
}

// What is no TCP connection of the kernel is read all the same.
func TestReadsWhatCannotBeStamped(t *testing.T) {
	ours, theirs := net.Pipe()
	go func() { _, _ = theirs.Write([]byte("x")); _ = theirs.Close() }()
	r, p := New(ours), make([]byte, 4)
	if n, late, err := r.Read(p, time.Time{}); n != 1 || late != 0 || err != nil {
		t.Errorf("%d, %v, %v", n, late, err)
	}
	r.Stop()
	if _, _, err := r.Read(p, time.Time{}); err != io.EOF {
		t.Error(err)
	}
}
