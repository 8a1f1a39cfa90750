package stdio

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/lash-go/lash/session/plugin/remote"
	"github.com/lash-go/lash/session/plugin/wire"
	"github.com/lash-go/lash/workers/internal/process"
)

// endWait is how long a child may take after its input is closed, and after TERM.
const endWait = 2 * time.Second

var (
	errClosed  = errors.New("it closed its output")
	errUnread  = fmt.Errorf("it does not read its input: %d bytes wait", maxQueued)
	errIgnored = errors.New("it did not answer a cancel")
	errLate    = errors.New("it did not end after its input was closed")
)

// child is one run of the program.
type child struct {
	log  *zap.Logger
	in   *queue
	end  context.CancelCauseFunc // kills it
	gone chan struct{}           // closed once its process group is dead
	work sync.WaitGroup          // requests of its calls

	first      bool                    // it has registered; of the reader
	registered chan *wire.Registration // has the first line
	placed     chan *wire.Placed

	mu      sync.Mutex
	calls   map[wire.CallID]*running
	hooks   map[hookKey]chan *wire.HookResult
	useful  bool   // it has answered a call or a hook
	closing bool   // it gets no further calls
	why     string // of its end
	rested  func() // called when no call and no hook runs any more; nil: nothing
}

// running is a call that runs in a child.
type running struct {
	on      remote.Caller
	request func(*wire.Callback) // performs a request and sends its answer
	open    int                  // requests without an answer
	outcome chan *wire.Outcome
	overdue bool // a cancel has no answer
}

// spawn starts the program.
func spawn(ctx context.Context, log *zap.Logger, command process.Command) (*child, error) {
	c := &child{
		log: log, in: newQueue(), gone: make(chan struct{}), registered: make(chan *wire.Registration, 1), placed: make(chan *wire.Placed, 1),
		calls: make(map[wire.CallID]*running), hooks: make(map[hookKey]chan *wire.HookResult),
	}
	life, end := context.WithCancelCause(context.WithoutCancel(ctx)) // ends with the child
	c.end = end
	command.Input, command.Clean, command.Grace = true, true, endWait
	p, err := process.Start(life, command, c.read, func(r io.Reader) {
		process.LogLines(log, r, nil)
	})
	if err != nil {
		end(nil)
		return nil, err
	}
	go c.in.write(p.Input, c.gone) // ends with the child
	go c.attend(life, p)           // likewise
	return c, nil
}

// attend waits for the end of the child.
func (c *child) attend(life context.Context, p *process.Process) {
	exit := p.Attend(life)
	why := fmt.Sprintf("exit status %d", exit.Status)
	switch cause := context.Cause(life); {
	case exit.Killed:
		why = cause.Error()
	case exit.Status < 0:
		why = "a signal killed it"
	}
	c.mu.Lock()
	c.closing, c.why = true, why
	c.mu.Unlock()
	c.end(nil)
	close(c.gone)
	c.work.Wait()
	c.log.Info("program ended", zap.String("reason", why))
}

// read receives the lines of the child.
func (c *child) read(r io.Reader) {
	if err := readLines(r, c.receive); err != nil {
		c.end(err)
		return
	}
	time.AfterFunc(endWait, func() { c.end(errClosed) }) // without effect on a child that has ended
}

// send sends a line.
func (c *child) send(kind string, message any) {
	line, err := lineOf(kind, message)
	if err == nil && !c.in.put(line) {
		err = errUnread
	}
	if err != nil {
		c.end(err)
	}
}

// receive handles a line of the child. An error ends it.
func (c *child) receive(line []byte) error {
	var head struct {
		Type string `json:"type"`
	}
	if err := json.Unmarshal(line, &head); err != nil {
		return fmt.Errorf("its output is no JSON line: %.100q", line)
	}
	if (head.Type == lineRegister) == c.first {
		return fmt.Errorf("register is the first line of its output, and no other one: %.100q", line)
	}
	c.first = true
	var err error
	switch head.Type {
	case lineRegister:
		err = into(line, func(r *wire.Registration) { c.registered <- r })
	case linePlaced:
		err = into(line, func(p *wire.Placed) { offer(c.placed, p) })
	case lineOutput:
		err = into(line, func(p *printed) {
			if r := c.call(p.CallID); r != nil {
				r.on.Output(p.Stream, p.Text)
			}
		})
	case lineCallback:
		err = into(line, c.callback)
	case lineOutcome:
		err = into(line, func(e *ended) {
			if r := c.call(e.CallID); r != nil {
				offer(r.outcome, &e.Outcome)
			}
		})
	case lineHookResult:
		err = c.hookResult(line)
	default:
		return fmt.Errorf("its output has a line of type %.100q", head.Type)
	}
	if err != nil {
		return fmt.Errorf("a %s line of its output is wrong: %w", head.Type, err)
	}
	return nil
}

// hookResult receives the answer of a hook. A late one has no reader.
func (c *child) hookResult(line []byte) error {
	var a answered
	if err := wire.Decode(line, &a); err != nil {
		return err
	}
	if a.Hook == "" || a.Invocation == "" {
		return errors.New("invocation and hook are those of the hook line")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if result := c.hooks[a.hookKey]; result != nil {
		offer(result, &a.HookResult)
	}
	return nil
}

// into parses a line.
func into[T any](line []byte, handle func(*T)) error {
	v := new(T)
	if err := wire.Decode(line, v); err != nil {
		return err
	}
	handle(v)
	return nil
}

// offer sends to a channel with one reader, unless it has an element.
func offer[T any](to chan T, v T) {
	select {
	case to <- v:
	default:
	}
}

// call finds a call that runs in the child; nil if none has this id.
func (c *child) call(id wire.CallID) *running {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.calls[id]
}

// callback performs a request of a call. One more than [wire.MaxCallbacks] at once gets status 429.
func (c *child) callback(in *requested) {
	c.mu.Lock()
	r := c.calls[in.CallID]
	full := r != nil && r.open >= wire.MaxCallbacks
	if r != nil && !full {
		r.open++
	}
	c.mu.Unlock()
	switch {
	case r == nil:
	case full:
		c.send(lineCallback, &wire.CallbackAnswer{CallID: in.CallID, ID: in.ID, Status: 429})
	default:
		c.work.Go(func() {
			r.request(&in.Callback)
			c.mu.Lock()
			defer c.mu.Unlock()
			r.open--
		})
	}
}

// close ends the child: it gets no further calls, and its input ends. One that does not end is killed.
func (c *child) close() {
	c.mu.Lock()
	c.closing = true
	c.mu.Unlock()
	c.in.end()
	late := time.AfterFunc(endWait, func() { c.end(errLate) })
	go func() { // ends with the child
		<-c.gone
		late.Stop()
	}()
}

// isOpen reports whether the child takes calls.
func (c *child) isOpen() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.closing
}

// quiet reports whether no call and no hook runs, and takes no more of them if so.
func (c *child) quiet() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.calls)+len(c.hooks) > 0 || c.closing {
		return false
	}
	c.closing = true
	return true
}

// reason is why the child ended, once it has.
func (c *child) reason() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.why
}
