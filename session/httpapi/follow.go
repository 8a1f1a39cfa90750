package httpapi

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/api"
)

// followPath is the path of the page's stream. It is not in the document: programs open a stream for each session. A browser has six
// connections to a server over HTTP/1.1 for all its tabs, so the page has one for the sessions of all of them.
const followPath = "/v1/follow"

// maxFollowed bounds the sessions of one stream.
const maxFollowed = 256

// followedJSON is a message of one of the sessions.
type followedJSON struct {
	Session events.SessionID `json:"session"`
	Data    any              `json:"data"`
}

// followRoute streams what /events streams, of several sessions. The parameter session has an id, a colon and a cursor. A session that
// cannot be read ends with a "problem" of its own.
func followRoute() *route {
	return &route{
		name: "follow", method: http.MethodGet, path: followPath, needs: api.RightRead, query: []param{{name: "session"}}, repeatable: []string{"session"},
		events: map[string]reflect.Type{}, handle: follow,
	}
}

func follow(c *httpRequest) (reply, error) {
	list := c.URL.Query()["session"]
	if len(list) == 0 || len(list) > maxFollowed {
		return reply{}, invalidParam("session", fmt.Sprintf("occurs %d times, want 1 to %d", len(list), maxFollowed))
	}
	cursors := make(map[events.SessionID]events.Seq)
	for _, text := range list {
		id, seq, _ := strings.Cut(text, ":")
		n, err := strconv.ParseUint(seq, 10, 63)
		if err != nil || events.CheckToken("session", id) != nil {
			return reply{}, invalidParam("session", "must be the id of a session, a colon and a sequence")
		}
		cursors[events.SessionID(id)] = events.Seq(n)
	}
	ids, record := slices.Sorted(maps.Keys(cursors)), recordOf(c.w)
	if len(ids) == 1 {
		record.Session = ids[0]
	} else {
		record.Sessions = strings.Trim(fmt.Sprint(ids), "[]")
	}
	return reply{stream: c.together(cursors)}, nil
}

// together merges the observations of sessions. Each has a goroutine, which ends with the stream.
func (c *httpRequest) together(cursors map[events.SessionID]events.Seq) iter.Seq2[message, error] {
	return func(yield func(message, error) bool) {
		ctx, stop := context.WithCancel(c.Context())
		all := make(chan message)
		var observing sync.WaitGroup
		defer observing.Wait()
		defer stop()
		for id, cursor := range cursors {
			observing.Go(func() { c.followOne(ctx, id, cursor, all) })
		}
		for {
			select {
			case m := <-all:
				if !yield(m, nil) {
					return
				}
			case <-ctx.Done():
				yield(message{}, context.Cause(ctx))
				return
			}
		}
	}
}

func (c *httpRequest) followOne(ctx context.Context, id events.SessionID, cursor events.Seq, to chan<- message) {
	ctx = api.WithCaller(ctx, c.caller.Caller, api.RightRead, id)
	send := func(name string, data any) {
		select {
		case to <- message{name: name, data: followedJSON{id, data}}:
		case <-ctx.Done():
		}
	}
	list, err := c.observe(ctx, id, cursor)
	if err == nil {
		for m, failed := range list {
			if err = failed; err != nil {
				break
			}
			send(m.name, m.data)
		}
	}
	if err != nil && ctx.Err() == nil {
		send("problem", c.s.reportProblem(c.Request, err))
	}
}
