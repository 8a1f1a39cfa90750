package httpapi_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/lash-go/lash/bus/bustest"
)

// TestAgentsWriteDeadline has callers of /v1/mcp that do not read their answers: of one large write, of many small ones, with and
// without a flush after each. Each handler gets an error in bounded time, and nothing of the answer stays. A caller that reads
// slowly gets all of an answer that takes longer than the deadline of one write.
func TestAgentsWriteDeadline(t *testing.T) {
	t.Parallel()
	const timeout = 500 * time.Millisecond
	large, small := bytes.Repeat([]byte("x"), 64<<20), bytes.Repeat([]byte("y"), 4<<10)
	many := func(w http.ResponseWriter, flush bool) error {
		for range len(large) / len(small) {
			if _, err := w.Write(small); err != nil {
				return err
			}
			if flush {
				if err := http.NewResponseController(w).Flush(); err != nil {
					return err
				}
			}
		}
		return nil
	}
	readOf := make(chan struct{}, 1)
	for name, c := range map[string]struct {
		write func(w http.ResponseWriter) error
		reads bool
	}{
		"large":   {func(w http.ResponseWriter) error { _, err := w.Write(large); return err }, false},
		"many":    {func(w http.ResponseWriter) error { return many(w, false) }, false},
		"flushed": {func(w http.ResponseWriter) error { return many(w, true) }, false},
		"slow": {func(w http.ResponseWriter) error {
			for began := time.Now(); time.Since(began) < 2*timeout; <-readOf { // the caller has the piece
				if _, err := w.Write(small); err != nil {
					return err
				}
				if err := http.NewResponseController(w).Flush(); err != nil {
					return err
				}
			}
			return nil
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ended := make(chan error, 1)
			cfg := config(t)
			cfg.WriteTimeout = timeout
			cfg.Agents = func(http.Handler) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { ended <- c.write(w) })
			}
			conn := dial(t, cfg)
			_, _ = fmt.Fprintf(conn, "POST /v1/mcp HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}", secret)
			var read int64
			if c.reads {
				answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
				if err != nil {
					t.Fatal(err)
				}
				for piece := make([]byte, len(small)); err == nil; {
					if _, err = io.ReadFull(answer.Body, piece); err == nil {
						read += int64(len(piece))
						readOf <- struct{}{}
					}
				}
				if !errors.Is(err, io.EOF) {
					t.Errorf("after %d bytes: got %v, want the end", read, err)
				}
				_ = answer.Body.Close()
			}
			if err := bustest.Receive(t, "the end of the handler", ended); (err == nil) != c.reads || c.reads && read == 0 {
				t.Errorf("got %v after %d bytes were read", err, read)
			}
		})
	}
}
