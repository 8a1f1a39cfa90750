package mcp

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/workers/internal/process"
)

const (
	endWait      = 2 * time.Second  // of a server after its input is closed, and after TERM
	readWait     = 10 * time.Second // how long a server may leave its input unread
	maxLastWords = 200              // bytes of what a command said at its end
	// maxUnanswered limits the requests of a server that have no answer yet. Others are dropped: a server that does not read answers would
	// keep all of them in memory.
	maxUnanswered = 64
	maxTries      = 16 // places in a line at which a message is looked for
)

// Why a command is ended, or its output not read on.
var (
	errDeaf   = errors.New("it does not read its input")
	errLate   = errors.New("it did not end after its input was closed")
	errBroken = errors.New("a message is no JSON")
	errLarge  = fmt.Errorf("a message has more than %d bytes", maxMessage)
)

// pipe is the connection with a server on stdin and stdout, and its transport.
type pipe struct {
	answers    *answers
	noise      func(line string) // receives lines that are no messages
	busy       func() bool       // whether a call runs
	messages   chan jsonrpc.Message
	err        error // why messages is closed
	broken     atomic.Bool
	unanswered atomic.Int64

	writing sync.Mutex
	out     io.WriteCloser
	kill    func(cause error)
	closed  chan struct{}
	close   func()
}

func newPipe(a *answers, out io.WriteCloser) *pipe {
	p := &pipe{answers: a, out: out, messages: make(chan jsonrpc.Message), closed: make(chan struct{}), kill: func(error) {}}
	p.close = sync.OnceFunc(func() { close(p.closed) })
	return p
}

// start runs a server as a child process, for a run that ends with ctx. end ends it, and says how it ended.
func (r *run) start(ctx context.Context) (end func() string, err error) {
	life, kill := context.WithCancelCause(context.WithoutCancel(ctx))
	said := new(lastWords)
	server, source := r.server, r.source
	r.pipe = newPipe(&r.answers, nil)
	r.pipe.noise, r.pipe.busy, r.pipe.kill = source.noise, source.busy, kill
	command := process.Command{Dir: server.Dir, Env: server.Env, Clean: true, Input: true, Grace: endWait}
	command.Args = slices.Concat(server.Sandbox, []string{server.Command}, server.Args)
	p, err := process.Start(life, command, func(output io.Reader) {
		r.pipe.listen(source.pace.of(life, io.NopCloser(output)))
	}, func(errs io.Reader) {
		process.LogLines(source.log, errs, func(line string) string {
			line = server.withoutSecrets(line)
			said.note(line)
			return line
		})
	})
	if err != nil {
		kill(nil)
		return nil, err
	}
	r.pipe.out = p.Input
	gone := make(chan struct{})
	var exit process.Exit // once it is gone
	go func() {           // ends with the process
		defer close(gone)
		exit = p.Attend(life)
	}()
	return func() string {
		_ = r.pipe.Close()
		select {
		case <-gone:
		case <-time.After(endWait):
		}
		kill(errLate)
		<-gone
		return strings.TrimSuffix("the command ended: "+exit.How()+": "+said.text, ": ")
	}, nil
}

// lastWords are of a command's standard error the last line that speaks of an error, or the last one.
type lastWords struct {
	text   string
	errors bool
}

func (w *lastWords) note(line string) {
	failed := strings.Contains(strings.ToLower(line), "error")
	if line = strings.TrimSpace(line); line != "" && (failed || !w.errors) {
		w.text, w.errors = events.Clip(line, maxLastWords, "..."), failed
	}
}

// listen reads the messages of an output to its end.
func (p *pipe) listen(output io.Reader) {
	defer close(p.messages)
	for lines := bufio.NewReaderSize(output, 32<<10); p.err == nil; {
		line, err := readLine(lines, maxMessage)
		if p.err = p.receive(line); p.err == nil {
			p.err = err
		}
	}
}

// readLine reads a line with its end, or what there is before an error.
func readLine(from *bufio.Reader, most int) (line []byte, err error) {
	for {
		part, err := from.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case len(line) > most:
			return nil, errLarge
		case !errors.Is(err, bufio.ErrBufferFull):
			return line, err
		}
	}
}

// receive passes the messages of a line on.
func (p *pipe) receive(line []byte) error {
	all, err := p.find(mended(line))
	for _, text := range all {
		m, bad := jsonrpc.DecodeMessage(text)
		if bad != nil { // the library's type of error would be an answer of the server to each call
			return errors.New(bad.Error())
		}
		if r, ok := m.(*jsonrpc.Request); ok && r.IsCall() && p.unanswered.Add(1) > maxUnanswered {
			p.unanswered.Add(-1)
			continue
		}
		select {
		case p.messages <- m:
		case <-p.closed:
			return io.EOF
		}
	}
	return err
}

// find finds the messages in a line. Servers print other text beside their messages, also in the same line, and objects that are none: such
// noise is skipped. A line of a message that is broken ends the server.
func (p *pipe) find(rest []byte) (all [][]byte, err error) {
	var noise []byte
	for tries := 0; tries < maxTries && bytes.Contains(rest, []byte(`"jsonrpc"`)); tries++ {
		at := bytes.IndexAny(rest, "{[")
		if at < 0 {
			break
		}
		var value json.RawMessage
		end := at + 1
		if d := json.NewDecoder(bytes.NewReader(rest[at:])); d.Decode(&value) == nil {
			end = at + int(d.InputOffset())
		}
		skip := end
		switch found := p.answers.messages(value); {
		case len(found) > 0:
			all = append(all, found...)
			skip = at
		case p.busy() && isAnswer(value): // it may be that of the call
			return nil, errBroken
		}
		noise, rest = append(noise, rest[:skip]...), rest[end:]
	}
	noise = bytes.TrimSpace(append(noise, rest...))
	switch {
	case len(noise) == 0:
	case len(all) == 0 && noise[0] == '{' && bytes.Contains(noise, []byte(`"jsonrpc"`)) && !json.Valid(noise):
		return nil, errBroken
	default:
		p.noise(string(noise))
	}
	return all, nil
}

// isAnswer reports whether an object that is no message is an answer all the same, to a request that it does not name.
func isAnswer(value json.RawMessage) bool {
	var m map[string]json.RawMessage
	return json.Unmarshal(value, &m) == nil && m["jsonrpc"] != nil && m["result"] != nil
}

// Connect implements [mcp.Transport].
func (p *pipe) Connect(context.Context) (mcp.Connection, error) { return p, nil }

// SessionID implements [mcp.Connection].
func (*pipe) SessionID() string { return "" }

// Read implements [mcp.Connection].
func (p *pipe) Read(ctx context.Context) (jsonrpc.Message, error) {
	select {
	case m, open := <-p.messages:
		if open {
			return m, nil
		}
		p.broken.Store(true)
		return nil, p.err
	case <-p.closed:
		return nil, io.EOF
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Write implements [mcp.Connection]. It ends a server that does not read its input: a message waits for those before, with their calls,
// which no cancel reaches.
func (p *pipe) Write(ctx context.Context, m jsonrpc.Message) error {
	switch m := m.(type) {
	case *jsonrpc.Request:
		if m.IsCall() {
			p.answers.sent(ctx, fmt.Sprint(m.ID.Raw()))
		}
	case *jsonrpc.Response:
		defer p.unanswered.Add(-1)
	}
	data, err := jsonrpc.EncodeMessage(m)
	if err != nil || ctx.Err() != nil {
		return errors.Join(err, ctx.Err())
	}
	p.writing.Lock()
	defer p.writing.Unlock()
	late := time.AfterFunc(readWait, func() {
		p.kill(errDeaf)
		_ = p.out.Close() // a process that left the group may have the other end
	})
	defer late.Stop()
	if _, err = p.out.Write(append(data, '\n')); err != nil {
		p.broken.Store(true)
	}
	return err
}

// Close implements [mcp.Connection].
func (p *pipe) Close() error {
	p.close()
	return p.out.Close()
}
