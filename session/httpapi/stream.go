package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"sync"
	"time"
)

// message is one server-sent event.
type message struct {
	id   string // the client's next Last-Event-ID; empty: it does not change
	name string
	data any // JSON
}

// stream sends messages until they end, the client disconnects, or the server drains.
func (s *Server) stream(c *httpRequest, r reply) {
	h := c.w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store, no-transform") // proxies that compress would hold events back
	h.Set("X-Accel-Buffering", "no")
	if c.ProtoMajor == 1 {
		h.Set("Connection", "close") // so that the connection ends with the stream
	}
	c.w.WriteHeader(http.StatusOK)
	if c.Method == http.MethodHead {
		return
	}
	// Nothing but an event ends with an empty line: some clients take each such block for an event.
	out := &eventWriter{w: c.w, conn: http.NewResponseController(c.w), timeout: s.cfg.WriteTimeout}
	if out.write([]byte("retry: 1000\n")) != nil {
		return
	}
	open, stop := context.WithCancel(c.Context())
	var keepAlive sync.WaitGroup
	defer keepAlive.Wait()
	defer stop()
	keepAlive.Go(func() { out.keepAlive(open, s.cfg.KeepAlive) })
	for m, err := range r.stream {
		switch {
		case err == nil:
			err = out.send(c, m)
		case c.Context().Err() == nil || r.outcome:
			p := s.reportProblem(c.Request, err)
			recordOf(c.w).Code = p.Code
			_ = out.last(c, message{name: "problem", data: p}) // the stream ends, also if this fails
		}
		if err != nil {
			return
		}
		c.memory.GiveBack() // what the message had
	}
}

// eventWriter writes server-sent events. It is safe for concurrent use.
type eventWriter struct {
	conn    *http.ResponseController
	timeout time.Duration

	mu sync.Mutex
	w  http.ResponseWriter
}

// send sends a message once the caller's byte limit allows it.
func (e *eventWriter) send(c *httpRequest, m message) error {
	data, err := m.encode()
	if err == nil {
		err = awaitBytes(c.Context(), c.limiter, len(data))
	}
	if err != nil {
		return err
	}
	return e.write(data)
}

// last sends the last message at once, also where the request was cut off.
func (e *eventWriter) last(c *httpRequest, m message) error {
	data, err := m.encode()
	if err != nil {
		return err
	}
	deductBytes(c.limiter, len(data))
	return e.write(data)
}

func (m *message) encode() ([]byte, error) {
	var b bytes.Buffer
	if m.id != "" {
		b.WriteString("id: " + m.id + "\n")
	}
	b.WriteString("event: " + m.name + "\ndata: ")
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(m.data); err != nil { // Encode writes one line with its end
		return nil, err
	}
	b.WriteByte('\n')
	return b.Bytes(), nil
}

func (e *eventWriter) write(data []byte) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	_ = e.conn.SetWriteDeadline(time.Now().Add(e.timeout)) // a test recorder has no deadline
	if _, err := e.w.Write(data); err != nil {
		return err
	}
	return e.conn.Flush()
}

// keepAlive writes comments, so that proxies keep the connection. The next message returns its error.
func (e *eventWriter) keepAlive(ctx context.Context, every time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			_ = e.write([]byte(":\n"))
		}
	}
}
