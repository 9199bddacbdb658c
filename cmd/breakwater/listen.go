package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
)

// A parent (serve, demo) opens the listeners of its children and hands them
// down. The port outlives a killed child: connections that arrive while it
// restarts wait in the socket's queue and are not refused.

const (
	listenersEnv = "BREAKWATER_LISTEN_FDS" // "data=3,admin=4"
	parentEnv    = "BREAKWATER_PARENT_FD"  // read end of a pipe that ends with the parent
)

// listen opens addr, or takes the listener of that name from the parent.
func listen(name, addr string) (net.Listener, error) {
	for pair := range strings.SplitSeq(os.Getenv(listenersEnv), ",") {
		key, value, _ := strings.Cut(pair, "=")
		if key != name {
			continue
		}
		fd, err := strconv.Atoi(value)
		if err != nil {
			return nil, fmt.Errorf("%s: %q is no descriptor", listenersEnv, value)
		}
		file := os.NewFile(uintptr(fd), name)
		defer file.Close()
		l, err := net.FileListener(file)
		if err != nil {
			return nil, fmt.Errorf("take over listener %s: %w", name, err)
		}
		return l, nil
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("listen for %s on %s: %w", name, addr, err)
	}
	return l, nil
}

// endWithParent returns a context that ends when the parent process does,
// however it died: a child never outlives its serve or demo.
func endWithParent(ctx context.Context) context.Context {
	fd, err := strconv.Atoi(os.Getenv(parentEnv))
	if err != nil {
		return ctx
	}
	os.Unsetenv(parentEnv)
	ctx, cancel := context.WithCancel(ctx)
	pipe := os.NewFile(uintptr(fd), "parent")
	go func() {
		var b [1]byte
		_, _ = pipe.Read(b[:]) // nothing is ever written: it returns at the end
		cancel()
	}()
	return ctx
}
