package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/charmbracelet/x/term"
	"github.com/oklog/ulid/v2"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/cmd/internal/chat"
	"github.com/lash-go/lash/cmd/internal/connect"
	"github.com/lash-go/lash/cmd/internal/program"
	"github.com/lash-go/lash/cmd/lash-node/serve"
	"github.com/lash-go/lash/events"
	sessionclient "github.com/lash-go/lash/session/client"
)

type chatCmd struct {
	clientFlags

	Session  *events.SessionID `help:"Go on with this session, whose last messages are shown. Without it a new one begins." placeholder:"ID"`
	Provider string            `help:"Model provider of the node that starts here: openai, openai-responses, anthropic, or scripted, which asks no model. Defaults to one whose key is in the environment." placeholder:"NAME"`
	Model    string            `help:"Model of the new session, and of the node that starts here. Without it, such a node lists the models that there are." placeholder:"NAME"`
	serve.ModelFlags
	serve.PluginFlags
	program.Settings

	Full      bool   `help:"Shorten nothing, and show what models think."`
	Whole     bool   `help:"All of standard input is one prompt. Without it each line is one."`
	Approvals string `help:"In a pipe: refuse calls that ask for an approval, or wait for an answer from elsewhere." default:"refuse" enum:"refuse,wait"`
	JSON      bool   `name:"json" help:"Print the session's events, one object a line, as lash-replay events --json does."`
}

func (*chatCmd) Help() string {
	return `Talk to a session. Several terminals may share one: each shows what all of them say. /help lists what can be typed.

Begin, with a node in this process and its store in .lash:

  OPENAI_API_KEY=... lash-node chat --model gpt-5-mini --plugins default,files,shell --root .

Go on with a session of a node that runs elsewhere, or in another terminal:

  lash-node chat --nats nats://localhost:4222 --session 01K...

Where no server is named, the node that runs in --store is taken, else one starts in this process and ends with it.

Where standard input or output is no terminal, and with --json or --whole, each line of standard input is a prompt; the model's text goes to standard output as it is
recorded, and everything else to standard error. Exit codes: 0 every turn was answered, 1 a turn ended without an answer, 2 it could not be done.

` + serve.ModelsHelp + serve.Config{}.PluginsHelp()
}

// chatting is the connection of a chat: its host and its node.
type chatting struct {
	bus   *bus.Bus
	where string // flags that connect another command to the same servers
	node  string // flags of the node in this process; empty: it runs none
	stop  func()
}

func (c *chatCmd) Run(ctx context.Context, s *streams) error {
	if c.Session != nil {
		if err := events.CheckToken("session", *c.Session); err != nil {
			return fmt.Errorf("--session %q: %w", *c.Session, err)
		}
	}
	ctx, stop := endOnHangup(ctx)
	defer stop()
	link := chat.NewLink()
	ctx, end, refusals := connect.EndOnRefusal(ctx, link)
	defer end()
	link.Also = refusals
	err := c.converse(ctx, s, link)
	if refused := connect.Refused(ctx); refused != nil {
		return c.Explain(refused, connect.Host, "")
	}
	return err
}

func (c *chatCmd) converse(ctx context.Context, s *streams, link *chat.Link) error {
	on, err := c.connect(ctx, s, link)
	if err != nil {
		return err
	}
	defer on.stop()
	cl, err := sessionclient.New(sessionclient.Config{Bus: on.bus, Actor: s.UserName("chat")})
	if err != nil {
		return err
	}
	talk := &chat.Talk{Service: cl, Blobs: on.bus, Servers: on.bus, Config: events.Config{Model: c.Model}, Where: on.where, Node: on.node, Starts: c.starts(), Full: c.Full, Link: link}
	id, joins := events.SessionID(ulid.Make().String()), c.Session != nil
	if joins {
		id = *c.Session
	}
	if inTerminal(s) && !c.JSON && !c.Whole {
		at := &chat.Screen{Talk: talk, In: s.In, Out: s.Screen, Session: id, Joins: joins, Plain: s.Env("NO_COLOR") != ""}
		id, err = at.Run(ctx)
		if err == nil {
			s.Printf("%s", talk.Farewell(id))
		}
		return err
	}
	p := &chat.Pipe{
		Talk: talk, In: input(s), Out: s.Out, Err: s.Err, Session: id, Joins: joins,
		Whole: c.Whole, JSON: c.JSON, Wait: c.Approvals == "wait",
	}
	return p.Run(ctx)
}

// endOnHangup returns a context that ends when the terminal closes. The node of a chat takes SIGHUP to read files again, so the
// signal alone ends no process. A command that ignores it, as under nohup, goes on.
func endOnHangup(ctx context.Context) (context.Context, context.CancelFunc) {
	if signal.Ignored(syscall.SIGHUP) {
		return context.WithCancel(ctx)
	}
	return signal.NotifyContext(ctx, syscall.SIGHUP)
}

// starts is the command that starts a node on the servers of this chat.
func (c *chatCmd) starts() string {
	if c.NATS == "" || !c.Named() {
		return "lash-node serve" + c.where() + " starts one"
	}
	return "lash-node serve starts one, with the certificate and the inbox of a user of role " + connect.Node
}

// inTerminal reports whether input and output are a terminal that can move its cursor.
func inTerminal(s *streams) bool {
	return s.In != nil && s.Screen != nil && term.IsTerminal(s.In.Fd()) && term.IsTerminal(s.Screen.Fd()) && s.Env("TERM") != "dumb"
}

// input is the reader of prompts. It is empty where the program has no standard input.
func input(s *streams) io.Reader {
	if s.In == nil {
		return strings.NewReader("")
	}
	return s.In
}

// ofNode reports whether a flag is set that only a node in this process uses.
func (c *chatCmd) ofNode() bool {
	return c.Provider != "" || c.Given() != ""
}

// chatOpenWait bounds the first response of the servers.
const chatOpenWait = 30 * time.Second

// connect opens the servers of --nats, those of the node in the store, or starts a node in this process.
func (c *chatCmd) connect(ctx context.Context, s *streams, link *chat.Link) (*chatting, error) {
	if c.NATS != "" {
		return c.join(ctx, s, c.NATS, link)
	}
	own, err := busembed.ReadAccess(c.Store)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if runs(own) {
		return c.join(ctx, s, own.URL, link)
	}
	if _, err := os.Stat(c.Store); c.Session != nil && errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("there is no session %s here: %s is no store of a node: --store DIR names the directory of one, --nats URL its servers", *c.Session, c.Store)
	}
	node, failed := c.startNode(ctx, s, own)
	if failed != nil && !errors.Is(failed, busembed.ErrInUse) {
		return nil, failed
	}
	if own, err = busembed.ReadAccess(c.Store); node == nil {
		if err != nil || own.URL == "" {
			return nil, failed
		}
		return c.join(ctx, s, own.URL, link) // the node of another terminal started first
	}
	stop := func() {
		defer s.NoteWait("the running turn; what is left of it goes on when a node starts here again")()
		node.Stop()
	}
	var on *chatting
	if err == nil {
		on, err = c.open(ctx, s, own.URL, link)
	}
	if err != nil {
		stop()
		return nil, err
	}
	on.node, on.stop = c.nodeFlags(), func() { on.bus.Close(); stop() }
	return on, nil
}

// join opens the servers of a running node. It prints a note about flags that have no effect there.
func (c *chatCmd) join(ctx context.Context, s *streams, servers string, link *chat.Link) (*chatting, error) {
	if c.ofNode() {
		s.Printf("--plugins, --root, --provider and the gate's rules are of a node that starts here: the one that runs has its own")
	}
	if c.Model != "" && c.Session != nil {
		s.Printf("--model is of a new session: /model %s sets it in this one", c.Model)
	}
	return c.open(ctx, s, servers, link)
}

func (c *chatCmd) open(ctx context.Context, s *streams, servers string, link *chat.Link) (*chatting, error) {
	opts, err := c.Options(servers, c.Store, link)
	if err != nil {
		return nil, err
	}
	keys, err := c.BodiesKeys()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, chatOpenWait)
	defer cancel()
	defer s.NoteWait("the servers at %s", bus.WithoutPasswords(servers))()
	b, err := connect.Open(ctx, bus.OpenReader, bus.Config{
		URL: servers, Options: append(opts, link.Options()...), Name: "lash-node chat", Prefix: c.Prefix, Inbox: c.Inbox, Keys: keys,
	}, c.NATS != "")
	if err != nil {
		return nil, c.Explain(err, connect.Host, "is the node running? lash-node serve starts one, --nats URL names its servers")
	}
	return &chatting{bus: b, where: c.where(), stop: b.Close}, nil
}
