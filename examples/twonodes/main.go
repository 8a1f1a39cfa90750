// Command twonodes has two nodes, each a process, on one NATS server, and a client. The client submits a turn, waits
// until a tool call is recorded, and kills the node that runs the turn. That node delays its next model call, so that
// it is killed before it. The other node takes over the turn: it calls the model, and repeats no tool call whose
// result is in the history.
//
//	go run github.com/nats-io/nats-server/v2 -c nats.conf & # GUIDE.md has the file: it syncs to disk every 100 ms
//	OPENAI_API_KEY=... MODEL=gpt-4o-mini go run ./examples/twonodes nats://127.0.0.1:4222 'What is it like in Oslo?'
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"sync"
	"time"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/examples/tool"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/client"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/session/transcript"
	"github.com/lash-go/lash/workers"
	"github.com/lash-go/lash/workers/llm"
	"github.com/lash-go/lash/workers/llm/openai"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	var err error
	switch {
	case len(os.Args) == 4 && os.Args[1] == "node": // what this program starts
		err = node(ctx, os.Args[2], os.Args[3])
	case len(os.Args) == 3:
		err = drive(ctx, os.Args[1], os.Args[2])
	default:
		err = fmt.Errorf("usage: %s URL QUESTION", os.Args[0])
	}
	stop()
	if err != nil {
		log.Fatal(err)
	}
}

// patient is a model that waits for a sign before its call about tool results. So the node can be killed before that
// call, however fast the model is.
type patient struct {
	llm.Provider
	sign <-chan struct{} // closed when the sign arrives
}

func (p patient) Complete(ctx context.Context, req llm.Request, sink func(llm.Delta)) (llm.Response, error) {
	if req.Iteration > 0 {
		select {
		case <-p.sign:
		case <-ctx.Done():
		}
	}
	return p.Provider.Complete(ctx, req, sink)
}

func provider() (*llm.Endpoint, error) {
	return openai.New(openai.Config{APIKey: os.Getenv("OPENAI_API_KEY"), BaseURL: os.Getenv("OPENAI_BASE_URL")})
}

// node runs turns until its standard input ends, which happens when its parent dies. A byte on the input is the sign.
func node(ctx context.Context, name, url string) error {
	b, err := bus.Open(ctx, bus.Config{URL: url})
	if err != nil {
		return err
	}
	defer b.Close()
	model, err := provider()
	if err != nil {
		return err
	}
	plugins, err := plugin.NewBuilder(plugin.BuilderConfig{Builtins: workers.Builtins(), Factories: []plugin.Factory{tool.Weather()}})
	if err != nil {
		return err
	}
	sign := make(chan struct{})
	n, err := workers.NewNode(workers.Config{
		Bus: b, Name: name, Plugins: plugins,
		Provider: model.ID(), Providers: map[string]llm.Provider{model.ID(): patient{model, sign}}, Model: os.Getenv("MODEL"),
	})
	if err != nil {
		return err
	}
	if err := n.Start(ctx); err != nil {
		return err
	}
	if _, err := io.ReadFull(os.Stdin, make([]byte, 1)); err == nil {
		close(sign)
	}
	_, err = io.Copy(io.Discard, os.Stdin)
	grace, cancel := context.WithTimeout(ctx, 5*time.Second) // for what runs
	defer cancel()
	n.Stop(grace)
	return err
}

// process is a node process of this program.
type process struct {
	*exec.Cmd
	in    io.WriteCloser
	ended chan struct{} // closed: it ended
}

// started starts a node process. It ends with ctx, or when in is closed.
func started(ctx context.Context, name, url string) (p process, err error) {
	self, err := os.Executable()
	if err != nil {
		return p, err
	}
	p.Cmd, p.ended = exec.CommandContext(ctx, self, "node", name, url), make(chan struct{}) //nolint:gosec // this program
	p.Stderr = os.Stderr
	if p.in, err = p.StdinPipe(); err != nil {
		return p, err
	}
	return p, p.Start()
}

// kill kills the node that runs the turn, and sends the sign to the others.
func kill(nodes map[string]process, runs string) error {
	if err := nodes[runs].Process.Kill(); err != nil {
		return err
	}
	<-nodes[runs].ended
	delete(nodes, runs)
	fmt.Printf("node %s is killed\n", runs)
	for _, p := range nodes {
		if _, err := p.in.Write([]byte{1}); err != nil {
			return err
		}
	}
	return nil
}

// drive starts the nodes and submits the question. It ends when both nodes have ended.
func drive(ctx context.Context, url, question string) error {
	model, err := provider()
	if err != nil {
		return err
	}
	if err := llm.CheckModel(ctx, model, os.Getenv("MODEL"), nil); err != nil {
		return fmt.Errorf("MODEL: %w", err)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var running sync.WaitGroup
	defer running.Wait()
	nodes := make(map[string]process)
	for _, name := range []string{"one", "two"} {
		p, err := started(ctx, name, url)
		if err != nil {
			return err
		}
		nodes[name] = p
		defer p.in.Close() //nolint:errcheck // it ends the node
		running.Go(func() {
			_ = p.Wait() // one of them is killed
			close(p.ended)
		})
	}
	fmt.Println("two nodes start")
	go func() {
		running.Wait()
		cancel(errors.New("both nodes have ended"))
	}()
	err = submit(ctx, nodes, url, question)
	if ended := context.Cause(ctx); err != nil && ended != nil {
		return ended
	}
	return err
}

// submit is the client: it asks for a turn, and kills the node that runs it.
func submit(ctx context.Context, nodes map[string]process, url, question string) error {
	waiting := func(what string) { fmt.Printf("waiting: %s\n", what) }
	b, err := bus.OpenReader(ctx, bus.Config{URL: url, Wait: true, Waiting: waiting}) // until a node has made what all share
	if err != nil {
		return err
	}
	defer b.Close()
	lash, err := client.New(client.Config{Bus: b})
	if err != nil {
		return err
	}
	id, err := lash.Create(ctx, api.CreateRequest{})
	if err != nil {
		return err
	}
	if _, err := lash.Submit(ctx, id, api.Ask(question)); err != nil {
		return err
	}
	var runs string // the node that has the turn
	for seen, err := range lash.Observe(ctx, id, 0) {
		if err != nil {
			return err
		}
		if seen.Commit == nil {
			continue
		}
		for _, e := range seen.Commit.Events {
			switch p := e.Payload.(type) {
			case *events.TurnStarted:
				runs, _, _ = strings.Cut(string(p.Worker), "-")
				fmt.Printf("node %s runs the turn, attempt %d\n", runs, p.Attempt)
			case *events.ToolReturned:
				fmt.Printf("a tool has returned: %s\n", transcript.VisibleLine(p.Results[0].Text))
				if len(nodes) > 1 {
					if err := kill(nodes, runs); err != nil {
						return err
					}
				}
			case *events.ModelReplied:
				fmt.Printf("a reply of %s, on node %s\n", number(len(p.Parts), "part"), runs)
			case *events.TurnCompleted:
				return awaitEnd(ctx, lash, id, e.Turn)
			}
		}
	}
	return context.Cause(ctx)
}

func awaitEnd(ctx context.Context, lash *client.Client, id events.SessionID, turn events.TurnID) error {
	r, err := lash.Await(ctx, id, turn)
	if err != nil {
		return err
	}
	after := number(int(r.Attempts), "attempt")
	if r.End.Stopped() {
		return fmt.Errorf("the turn ended without an answer after %s: %s: %s: OPENAI_API_KEY, OPENAI_BASE_URL and MODEL say which model is asked",
			after, r.End, transcript.VisibleLine(r.Issue.Message))
	}
	fmt.Printf("the turn is %s after %s: %s\n", r.End, after, transcript.Visible(r.Text))
	return nil
}

// number is a count with its noun, in the plural where it is not one.
func number(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return fmt.Sprintf("%d %s", n, noun)
}
