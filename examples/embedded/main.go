// Command embedded has everything in one process: a NATS server, a node, and the client that submits a turn. Its model
// may send letters. A letter cannot be taken back, so package gate requires an approval for each, and this program
// asks its user. The history ends with the process; embedded.Config's StoreDir would keep it.
//
//	OPENAI_API_KEY=... MODEL=gpt-4o-mini go run ./examples/embedded 'Write to Ann that I come on Monday.'
package main

import (
	"bufio"
	"context"
	"fmt"
	"log"
	"os"
	"os/signal"
	"strings"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/session/transcript"
	"github.com/lash-go/lash/workers/builtin/gate"
	"github.com/lash-go/lash/workers/embedded"
	"github.com/lash-go/lash/workers/llm/openai"
)

func main() {
	if len(os.Args) < 2 || os.Getenv("MODEL") == "" {
		fmt.Fprintf(os.Stderr, "usage: OPENAI_API_KEY=... MODEL=NAME %s QUESTION\n", os.Args[0])
		os.Exit(2)
	}
	if err := run(strings.Join(os.Args[1:], " ")); err != nil {
		log.Fatal(err)
	}
}

type letter struct{ To, Text string }

func run(ask string) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	model, err := openai.New(openai.Config{APIKey: os.Getenv("OPENAI_API_KEY"), BaseURL: os.Getenv("OPENAI_BASE_URL")})
	if err != nil {
		return err
	}
	send := plugin.OfTool(plugin.Tool{Name: "send_letter", Description: "Sends a letter."}, func(_ context.Context, _ plugin.Call, l letter) (string, error) {
		return "sent to " + l.To, nil // here it would be sent
	})
	lash, err := embedded.Start(ctx, embedded.Config{Provider: model, Model: os.Getenv("MODEL")}, send, gate.Factory(gate.Config{}))
	if err != nil {
		return err
	}
	defer lash.Stop()
	id, err := lash.Create(ctx, api.CreateRequest{})
	if err != nil {
		return err
	}
	if _, err := lash.Submit(ctx, id, api.Ask(ask)); err != nil {
		return err
	}
	in := bufio.NewScanner(os.Stdin)
	for seen, err := range lash.Observe(ctx, id, 0) { // from the beginning, and then live
		if err != nil {
			return err
		}
		if seen.Delta != nil && seen.Delta.Retry.Attempt > 0 {
			fmt.Printf("the model call is tried again: %s\n", transcript.VisibleLine(seen.Delta.Retry.Reason))
		}
		if seen.Commit == nil {
			continue // a delta of a reply, which its commit has whole
		}
		for _, e := range seen.Commit.Events {
			switch p := e.Payload.(type) {
			case *events.ToolApprovalAsked:
				fmt.Printf("%s %s [y/n]\n", transcript.VisibleLine(p.Question), transcript.VisibleLine(string(p.Args)))
				granted := in.Scan() && in.Text() == "y"
				if err := lash.Approve(ctx, id, events.ToolApprovalGiven{Effect: p.Effect, Granted: granted}); err != nil {
					return err
				}
			case *events.TurnCompleted:
				conversation, err := lash.View(ctx, id)
				if err != nil {
					return err
				}
				err = transcript.Render(os.Stdout, conversation.Nodes, transcript.Options{})
				if p.End.Stopped() {
					err = fmt.Errorf("the turn ended without an answer: %s: %s: OPENAI_API_KEY, OPENAI_BASE_URL and MODEL say which model is asked", p.End, transcript.VisibleLine(p.Issue.Message))
				}
				return err
			}
		}
	}
	return nil
}
