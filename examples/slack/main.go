// Command slack is a second client of a session that another client drives. It shows the session in a channel: on
// standard output, or at an incoming webhook in Slack's format. Lines on its standard input answer approvals:
//
//	approve CALL
//	deny CALL REASON
//
// A file keeps the session and the sequence of its last shown commit, and a restart continues after it. The file of
// another session is refused. The program shows a commit before it writes the file. A commit that was shown just before
// a crash is shown twice, and none is left out.
//
//	go run ./examples/slack -store .lash -session SESSION -seen seen [-webhook https://hooks.slack.com/services/...]
package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"log"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/client"
	"github.com/lash-go/lash/session/transcript"
)

func main() {
	store := flag.String("store", ".lash", "directory of the node's embedded server, which says where it listens and has the key to it")
	session := flag.String("session", "", "the session to show")
	webhook := flag.String("webhook", "", "URL to post to; without one it is standard output")
	seen := flag.String("seen", "seen", "file of the last sequence that was shown, for one session")
	flag.Parse()
	if *session == "" {
		log.Fatal("-session is missing: lash-replay ls lists sessions")
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, *store, &channel{session: events.SessionID(*session), webhook: *webhook, cursorFile: *seen})
	interrupted := ctx.Err() != nil // stop ends ctx too
	stop()
	if err != nil && !interrupted {
		log.Fatal(err)
	}
}

// channel shows a session.
type channel struct {
	lash                *client.Client
	session             events.SessionID
	webhook, cursorFile string
}

func run(ctx context.Context, store string, c *channel) error {
	own, err := busembed.ReadAccess(store)
	if err != nil {
		return err
	}
	b, err := bus.OpenReader(ctx, bus.Config{URL: own.URL, Options: []nats.Option{own.Option()}})
	if err != nil {
		return err
	}
	defer b.Close()
	if c.lash, err = client.New(client.Config{Bus: b, Actor: "slack"}); err != nil {
		return err
	}
	go c.approve(ctx) // ends with the process
	return c.follow(ctx)
}

// follow shows the session from the commit after the last shown one.
func (c *channel) follow(ctx context.Context) error {
	cursor, err := c.cursor()
	if err != nil {
		return err
	}
	for o, err := range c.lash.Observe(ctx, c.session, cursor) {
		if err != nil {
			return err
		}
		if o.Commit == nil {
			continue // a delta of a reply, which its commit has whole
		}
		for _, e := range o.Commit.Events {
			if text := indented(textOf(e.Payload)); text != "" {
				if err := c.post(ctx, text); err != nil {
					return err
				}
			}
		}
		if err := errors.Join(os.WriteFile(c.cursorFile+".new", fmt.Appendf(nil, "%s %d\n", c.session, o.Seq), 0o600), os.Rename(c.cursorFile+".new", c.cursorFile)); err != nil {
			return err
		}
	}
	return nil
}

// cursor is the sequence of the last shown commit of the session; 0 where none was shown.
func (c *channel) cursor() (events.Seq, error) {
	text, err := os.ReadFile(c.cursorFile)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	var session events.SessionID
	var seq events.Seq
	if _, err := fmt.Sscanf(string(text), "%s %d\n", &session, &seq); err != nil {
		return 0, fmt.Errorf("-seen %s: want SESSION SEQUENCE: name another file, or remove this one to show the session from its beginning", c.cursorFile)
	}
	if session != c.session {
		return 0, fmt.Errorf("-seen %s is of session %s: name another file for session %s", c.cursorFile, session, c.session)
	}
	return seq, nil
}

// indented has every line but the first begin with spaces: a line of a user, a model or a tool looks like no other event.
func indented(text string) string { return strings.ReplaceAll(text, "\n", "\n    ") }

// slackText is a text in which Slack finds no mention and no link: both begin with <.
func slackText(text string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace(text)
}

// textOf is the text for an event; empty for most kinds.
func textOf(payload events.Payload) string {
	switch p := payload.(type) {
	case *events.TurnRequested:
		return "user: " + events.Message{Parts: p.Input.Parts}.Text()
	case *events.ModelReplied:
		if text := (events.Message{Parts: p.Parts}).Text(); text != "" {
			return "assistant: " + text
		}
	case *events.ToolApprovalAsked:
		return fmt.Sprintf("%s %s: approve %s, or deny %[3]s REASON", p.Question, p.Args, p.Effect)
	case *events.ToolApprovalGiven:
		return fmt.Sprintf("%s: granted %t by %s", p.Effect, p.Granted, p.By)
	case *events.TurnCompleted:
		return "the turn is " + string(p.End)
	}
	return ""
}

// post writes to the channel.
func (c *channel) post(ctx context.Context, text string) error {
	if c.webhook == "" {
		fmt.Println(transcript.Visible(text))
		return nil
	}
	body, err := json.Marshal(map[string]string{"text": slackText(text)})
	if err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.webhook, bytes.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(r)
	if failed, ok := errors.AsType[*url.Error](err); ok {
		return failed.Err // the URL itself is a secret
	}
	defer answer.Body.Close() //nolint:errcheck // the body is not read
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("the webhook answers %s", answer.Status)
	}
	return nil
}

// approve answers approvals with the lines of standard input.
func (c *channel) approve(ctx context.Context) {
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		verb, rest, _ := strings.Cut(in.Text(), " ")
		call, reason, _ := strings.Cut(rest, " ")
		err := fmt.Errorf("%q: want approve CALL, or deny CALL REASON", verb)
		if verb == "approve" || verb == "deny" {
			err = c.lash.Approve(ctx, c.session, events.ToolApprovalGiven{Effect: events.EffectID(call), Granted: verb == "approve", Reason: reason})
		}
		if err != nil {
			log.Print(err)
		}
	}
}
