package sandbox

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"time"

	"github.com/lash-go/lash/session/memory"
)

// processName is the name under which this executable runs one program.
const processName = "lash-program"

// ready is the first line of a process. What other packages print when they are initialized comes before it.
const ready = "lash-program is ready\n"

// Every executable with this package can be a process for a program, also that of a test: nothing of its own runs then.
func init() { //nolint:gochecknoinits // see above
	if os.Args[0] != processName {
		return
	}
	signal.Ignore() // a terminal and a service manager also signal the processes of a node: the node ends them
	runtime.GOMAXPROCS(2)
	_, _ = os.Stdout.WriteString(ready)
	go interpret(os.Stdin, os.Stdout, bound, func() { os.Exit(1) }) //nolint:forbidigo // a process of its own
	select {}                                                       // the node reads all, and kills the process
}

// bound ends the process when its program has more than limit. The wall is further out: it ends a process that one step
// takes there before this can see it.
func bound(limit int64) error {
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(sample)
	limit += int64(sample[0].Value.Uint64()) //nolint:gosec // some MB that the executable has
	debug.SetMemoryLimit(limit)
	go func() { // ends with the process
		for range time.Tick(10 * time.Millisecond) {
			if metrics.Read(sample); sample[0].Value.Uint64() > uint64(limit) { //nolint:gosec // a limit is positive
				os.Exit(1) //nolint:forbidigo // a process of its own
			}
		}
	}()
	return wall(limit)
}

// process is a process for one program, or a goroutine in tests.
type process struct {
	in   *json.Encoder
	out  *json.Decoder
	kill func() // may be called at any time
	wait func()

	memory *memory.Account // of the program while it computes
}

func startProcess(ctx context.Context) (*process, error) {
	self, err := executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self) //nolint:gosec,noctx // this executable, which Run kills
	cmd.Args, cmd.Env, cmd.SysProcAttr = []string{processName}, []string{}, attributes()
	in, inErr := cmd.StdinPipe()
	out, outErr := cmd.StdoutPipe()
	if err := errors.Join(inErr, outErr); err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	lines := bufio.NewReader(out)
	p := &process{in: json.NewEncoder(in), kill: func() { _ = cmd.Process.Kill() }, wait: func() { _ = cmd.Wait() }}
	defer context.AfterFunc(ctx, p.kill)()
	for line := ""; line != ready; {
		if line, err = lines.ReadString('\n'); err != nil {
			p.kill()
			p.wait()
			return nil, fmt.Errorf("it ended before it was ready: %w", err)
		}
	}
	p.out = json.NewDecoder(lines)
	return p, nil
}

// order is the first message to a process, after which it gets answers.
type order struct {
	Request
	Limits Limits
}

// message is what a process says. A call, start, wait or attachments gets an answer for each of its calls.
type message struct {
	Kind  string // print, message, show, call, start, wait, attachments, end, or broken
	Text  string // what is printed or sent; the task to wait for; why the run is broken
	Label string // the kind of a message
	Calls []Call
	Shown Attachment
	End   Response
}

// answer is what a tool gave.
type answer struct {
	Value  []byte // JSON, or a text
	Failed bool
	Error  string
}

// exchange sends something to the process and reads its next message.
func (p *process) exchange(say any) (message, error) {
	var m message
	if say != nil {
		if err := p.in.Encode(say); err != nil {
			return m, err
		}
	}
	return m, p.out.Decode(&m)
}

// interpret runs a program for the node at the other end of the pipes. gone is called when that has closed them.
func interpret(in io.Reader, out io.Writer, bound func(limit int64) error, gone func()) {
	r := &run{pipe: json.NewEncoder(out), answers: make(chan []answer)}
	dec := json.NewDecoder(in)
	if err := dec.Decode(&r.order); err != nil {
		gone()
		return
	}
	go func() { // ends with the pipe
		for {
			var list []answer
			if err := dec.Decode(&list); err != nil {
				gone()
				return
			}
			r.answers <- list
		}
	}()
	err := bound(r.Limits.MemoryBytes)
	var end Response
	if err == nil {
		end, err = r.evaluate()
	}
	if err != nil {
		r.send(message{Kind: "broken", Text: err.Error()})
		return
	}
	r.send(message{Kind: "end", End: end})
}

func (r *run) send(m message) { _ = r.pipe.Encode(m) } // a node that is gone ends the process

// ask sends a message and waits for its answers.
func (r *run) ask(m message) []answer {
	r.send(m)
	return <-r.answers
}
