// Package relay is a command that copies bytes between a client and an upstream and looks at none of
// them: a read and a write each way for a request and for its answer, by the net
// package, one goroutine a connection. What a gateway built so costs beyond it is its
// own; see docs/performance.md. It is run as OURS_CMD of ../run and ../tail.
package main

import (
	"fmt"
	"net"
	"os"
)

func main() {
	l, err := net.Listen("tcp", os.Getenv("OURS_ADDR"))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	for {
		client, err := l.Accept()
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		go relay(client, os.Getenv("UPSTREAM_ADDR"))
	}
}

// relay takes a request and an answer to be one read each, as those of the bench are.
func relay(client net.Conn, to string) {
	defer client.Close()
	upstream, err := net.Dial("tcp", to)
	if err != nil {
		return
	}
	defer upstream.Close()
	buf := make([]byte, 16<<10)
	pass := func(from, to net.Conn) bool {
		n, err := from.Read(buf)
		if err == nil {
			_, err = to.Write(buf[:n])
		}
		return err == nil
	}
	for pass(client, upstream) && pass(upstream, client) {
	}
}
