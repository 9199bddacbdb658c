package quota

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strings"
	"time"
)

// answer is as much of a Redis as a batch needs: it gives one token to each EVALSHA,
// after a while, and tells how many came at once.
func answer(c net.Conn, after time.Duration, batch func(n int)) {
	defer c.Close()
	r := bufio.NewReader(c)
	for {
		evals, out := 0, ""
		for {
			words, err := command(r)
			if err != nil {
				return
			}
			if strings.EqualFold(words[0], "evalsha") {
				evals++
				out += "*2\r\n:1\r\n:0\r\n"
			} else {
				out += "-ERR unknown command\r\n"
			}
			if r.Buffered() == 0 {
				break
			}
		}
		if evals > 0 {
			time.Sleep(after)
			batch(evals)
		}
		if _, err := io.WriteString(c, out); err != nil {
			return
		}
	}
}

// command reads one array of strings.
func command(r *bufio.Reader) ([]string, error) {
	var n int
	if _, err := fmt.Fscanf(r, "*%d\r\n", &n); err != nil {
		return nil, err
	}
	words := make([]string, n)
	for i := range words {
		var size int
		if _, err := fmt.Fscanf(r, "$%d\r\n", &size); err != nil {
			return nil, err
		}
		text := make([]byte, size+2)
		if _, err := io.ReadFull(r, text); err != nil {
			return nil, err
		}
		words[i] = string(text[:size])
	}
	return words, nil
}
