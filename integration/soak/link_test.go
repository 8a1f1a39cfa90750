package main

import (
	"bufio"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/lash-go/lash/internal/runtest"
)

// echoes is a link to a server that sends every line back.
func echoes(t *testing.T) *link {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	runtest.NoError(t, err)
	var serving sync.WaitGroup
	t.Cleanup(func() { _ = listener.Close(); serving.Wait() })
	serving.Go(func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			serving.Go(func() { _, _ = io.Copy(c, c); _ = c.Close() })
		}
	})
	l, err := newLink(t.Context(), listener.Addr().String())
	runtest.NoError(t, err)
	t.Cleanup(l.close)
	return l
}

func dial(t *testing.T, l *link) *bufio.ReadWriter {
	t.Helper()
	c, err := net.Dial("tcp", l.address())
	runtest.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	runtest.NoError(t, c.SetDeadline(time.Now().Add(20*time.Second)))
	return bufio.NewReadWriter(bufio.NewReader(c), bufio.NewWriter(c))
}

// echo sends a line and reads the response.
func echo(c *bufio.ReadWriter, line string) (string, error) {
	if _, err := c.WriteString(line + "\n"); err != nil {
		return "", err
	}
	if err := c.Flush(); err != nil {
		return "", err
	}
	return c.ReadString('\n')
}

func wantEcho(t *testing.T, c *bufio.ReadWriter, line string) {
	t.Helper()
	if got, err := echo(c, line); got != line+"\n" || err != nil {
		t.Errorf("got %q, %v, want %s", got, err, line)
	}
}

// TestLinkSilent: bytes that are sent while packets are dropped arrive later, without loss.
func TestLinkSilent(t *testing.T) {
	t.Parallel()
	l := echoes(t)
	c := dial(t, l)
	wantEcho(t, c, "before")
	l.cut(false)
	answer := make(chan error, 1)
	go func() { _, err := echo(c, "meanwhile"); answer <- err }() // ends with the connection's deadline
	select {
	case err := <-answer:
		t.Errorf("while it is cut: got an answer, %v", err)
	default:
	}
	l.heal()
	runtest.WantError(t, "after it is healed", <-answer, nil)
	wantEcho(t, c, "after")
}

// TestLinkRefused: a cut with refusal closes all connections and accepts none until it is healed.
func TestLinkRefused(t *testing.T) {
	t.Parallel()
	l := echoes(t)
	c := dial(t, l)
	wantEcho(t, c, "before")
	l.cut(true)
	for _, c := range []*bufio.ReadWriter{c, dial(t, l)} {
		if _, err := echo(c, "meanwhile"); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("while it is cut: got %v, want the connection's end", err)
		}
	}
	l.heal()
	wantEcho(t, dial(t, l), "after")
}
