package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"go.uber.org/zap"

	"github.com/lash-go/lash/bus/delay"
	"github.com/lash-go/lash/cmd/lash-node/serve"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/workers/llm"
	"github.com/lash-go/lash/workers/llm/scripted"
)

type demoEditCmd struct {
	Store  string `help:"Directory of the embedded server. Defaults to a temporary one." placeholder:"DIR" type:"path"`
	Listen string `help:"Address at which the embedded server takes the other terminal." default:"127.0.0.1:0" placeholder:"HOST:PORT"`
}

const (
	editSession events.SessionID = "edit"
	editFile    string           = "greeting.txt"
	editBefore  string           = "Hello, wrold!\n"
)

// Run runs a server, a node with the plugins files and gate, a client and a scripted model in this process. The
// approval comes from another process.
func (c *demoEditCmd) Run(ctx context.Context, s *streams) (err error) {
	dir, err := os.MkdirTemp("", "lash-edit-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // it is temporary
	root := filepath.Join(dir, "files")
	file := filepath.Join(root, editFile)
	if err := os.Mkdir(root, 0o750); err != nil {
		return err
	}
	if err := os.WriteFile(file, []byte(editBefore), 0o600); err != nil {
		return err
	}
	if c.Store == "" {
		c.Store = filepath.Join(dir, "store")
	}
	adds := serve.Config{Providers: []llm.Provider{scripted.New(editModel)}, Logger: zap.NewNop()}
	node, err := serve.Start(ctx, s, adds, func(flags *serve.Command) {
		flags.Store, flags.Listen, flags.Grace = c.Store, c.Listen, stopGrace
		flags.Plugins, flags.Root = []string{"gate", "files"}, root
	})
	if err != nil {
		return err
	}
	defer node.Stop()
	if err := c.converse(ctx, s, node.Host(), file); err != nil {
		return err
	}
	defer s.NoteWait("the other terminal")()
	parted(ctx, node)
	return nil
}

// partWait bounds how long the other terminal may take to read its answer.
const partWait = 10 * time.Second

// parted waits until all other clients have disconnected, at most [partWait]: the other terminal still reads the
// outcome of its answer.
func parted(ctx context.Context, node *serve.Node) {
	ctx, cancel := context.WithTimeout(ctx, partWait)
	defer cancel()
	for node.Clients() > 0 && delay.Sleep(ctx, pollEvery) {
	}
}

func (c *demoEditCmd) converse(ctx context.Context, s *streams, h *session.Host, file string) error {
	if _, err := h.Create(ctx, api.CreateRequest{ID: editSession}); err != nil {
		return err
	}
	const ask = "Correct the spelling in " + editFile + "."
	write(s.Out, "user       %s\n%s  %s", ask, editFile, editBefore)
	turn, err := h.Submit(ctx, editSession, api.TurnRequest{
		ID: "t1", Input: events.TurnInput{Parts: []events.Part{{Kind: events.PartText, Text: ask}}},
	})
	if err != nil {
		return err
	}
	write(s.Out, "\nThe model asks for an approval. In another terminal:\n\n  lash-node approvals --store %s --wait 1m\n\nIt says what to answer with.\n\n", c.Store)
	r, err := h.Await(ctx, editSession, turn)
	if err != nil {
		return err
	}
	now, err := os.ReadFile(file) //nolint:gosec // the demonstration wrote it
	if err != nil {
		return err
	}
	write(s.Out, "assistant  %s\n%s  %s", r.Text, editFile, now)
	return nil
}

// editModel reads the file, edits it, and reports the outcome.
func editModel(_ context.Context, req llm.Request) (scripted.Answer, error) {
	call := func(id events.CallID, tool, args string) events.Part {
		return events.Part{Kind: events.PartToolCall, Call: id, Tool: tool, Args: []byte(args)}
	}
	var last events.Part
	for _, p := range req.Messages[len(req.Messages)-1].Parts {
		last = p
	}
	var part events.Part
	switch {
	case last.Kind != events.PartToolResult:
		part = call("read", "read_file", `{"path":"`+editFile+`"}`)
	case last.Call == "read":
		part = call("edit", "edit_file", `{"path":"`+editFile+`","old":"wrold","new":"world"}`)
	default:
		part = events.Part{Kind: events.PartText, Text: fmt.Sprintf("The edit came to this: %s", last.Text)}
	}
	return scripted.Answer{Response: llm.Response{Parts: []events.Part{part}, Stop: events.StopEnd}}, nil
}
