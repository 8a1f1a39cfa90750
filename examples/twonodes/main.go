// Command twonodes has two nodes on one NATS, each a process, and a client. The client asks for a turn, waits until a call
// of a tool has been recorded, and kills the node that runs the turn. The other node takes the turn over: it asks
// the model for what comes next, and calls no tool again whose result is in the history.
//
//	nats-server -js &
//	OPENAI_API_KEY=... MODEL=gpt-4o-mini go run ./examples/twonodes nats://127.0.0.1:4222 'What is it like in Oslo?'
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"os"
	"os/exec"
	"os/signal"
	"strings"
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

// node runs turns until its standard input ends, which it does when the program dies that started it.
func node(ctx context.Context, name, url string) error {
	b, err := bus.Open(ctx, bus.Config{URL: url})
	if err != nil {
		return err
	}
	defer b.Close()
	model, err := openai.New(openai.Config{APIKey: os.Getenv("OPENAI_API_KEY"), BaseURL: os.Getenv("OPENAI_BASE_URL")})
	if err != nil {
		return err
	}
	plugins, err := plugin.NewHost(plugin.HostConfig{Builtins: workers.Builtins(), Factories: []plugin.Factory{tool.Weather()}})
	if err != nil {
		return err
	}
	n, err := workers.NewNode(workers.Config{
		Bus: b, Name: name, Plugins: plugins,
		Provider: model.ID(), Providers: map[string]llm.Provider{model.ID(): model}, Model: os.Getenv("MODEL"),
	})
	if err != nil {
		return err
	}
	if err := n.Start(ctx); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, os.Stdin)
	grace, cancel := context.WithTimeout(ctx, 5*time.Second) // for what runs
	defer cancel()
	n.Stop(grace)
	return err
}

// started starts a node as a process. It ends with ctx, or when in is closed.
func started(ctx context.Context, name, url string) (cmd *exec.Cmd, in io.Closer, err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, nil, err
	}
	cmd = exec.CommandContext(ctx, self, "node", name, url) //nolint:gosec // this program
	cmd.Stderr = os.Stderr
	if in, err = cmd.StdinPipe(); err != nil {
		return nil, nil, err
	}
	return cmd, in, cmd.Start()
}

// drive starts the nodes, and asks.
func drive(ctx context.Context, url, question string) error {
	nodes := make(map[string]*exec.Cmd)
	for _, name := range []string{"one", "two"} {
		cmd, in, err := started(ctx, name, url)
		if err != nil {
			return err
		}
		nodes[name] = cmd
		defer cmd.Wait() //nolint:errcheck // one of them is killed
		defer in.Close() //nolint:errcheck // it ends the node
	}
	b, err := bus.OpenReader(ctx, bus.Config{URL: url, Wait: true}) // until a node has made what all share
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
				if err := nodes[runs].Process.Kill(); err != nil {
					return err
				}
				fmt.Printf("node %s is killed\n", runs)
			case *events.ModelReplied:
				fmt.Printf("a reply of %d parts, on node %s\n", len(p.Parts), runs)
			case *events.TurnCompleted:
				return answer(ctx, lash, id, e.Turn)
			}
		}
	}
	return nil
}

func answer(ctx context.Context, lash *client.Client, id events.SessionID, turn events.TurnID) error {
	r, err := lash.Await(ctx, id, turn)
	fmt.Printf("the turn is %s after %d attempts: %s\n", r.End, r.Attempts, transcript.Visible(r.Text))
	return err
}
