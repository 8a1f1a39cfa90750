package soak

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/zap"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers"
	"github.com/lash-go/lash/workers/llm"
	"github.com/lash-go/lash/workers/playback"
	"github.com/lash-go/lash/workers/recording"
)

// NodeSpec is the [Spec] of a node.
type NodeSpec struct {
	Name     string          `json:"name"`
	Worker   events.WorkerID `json:"worker"` // of this process of the node
	URL      string          `json:"url"`
	Replicas int             `json:"replicas"`
	Chats    []string        `json:"chats"`
	Ledger   string          `json:"ledger"`
	Think    time.Duration   `json:"think"` // a model call takes 0.5 to 1.5 times this, a tool a third of that
}

// coldAfter keeps the number of hot sessions small in a run of any length. Each hot session is a stream on three
// servers, and a server that restarts recovers all streams.
const coldAfter = 10 * time.Second

func (s *NodeSpec) run(ctx context.Context, working func()) error {
	log, err := zap.NewProduction()
	if err != nil {
		return err
	}
	convs, err := readChats(s.Chats)
	if err != nil {
		return err
	}
	ledger, err := os.OpenFile(s.Ledger, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer ledger.Close() //nolint:errcheck // the file is only appended to
	b, err := openBus(ctx, s.URL, s.Replicas, log)
	if err != nil {
		return err
	}
	defer b.Close()
	host, err := session.New(session.Config{Bus: b, Actor: "soak", NoPlugins: true})
	if err != nil {
		return err
	}
	c := &cast{spec: s, ctx: ctx, convs: convs, host: host, player: playback.NewPlayer(host), ledger: ledger, log: log}
	defer c.cancels.Wait()
	c.player.Watch(playback.Watch{Asked: c.recordCall, Hung: c.hung, Effects: effectsOf})
	node, err := workers.NewNode(workers.Config{
		Bus: b, Name: s.Name, ID: s.Worker, Provider: "scripted", Tools: c.tools, Logger: log,
		Providers: map[string]llm.Provider{"scripted": c.player.Provider()}, ArchiveAfter: coldAfter,
	})
	if err != nil {
		return err
	}
	if err := node.Start(ctx); err != nil {
		return err
	}
	working()
	<-ctx.Done()
	now, cancel := context.WithCancel(context.Background())
	cancel()
	node.Stop(now)
	return nil
}

// openBus connects through links only. It ignores the addresses that servers announce, because those bypass the links.
func openBus(ctx context.Context, url string, replicas int, log *zap.Logger) (*bus.Bus, error) {
	return bus.Open(ctx, bus.Config{
		URL: url, Replicas: replicas, Logger: log,
		Options: []nats.Option{nats.IgnoreDiscoveredServers(), nats.RetryOnFailedConnect(true)},
	})
}

// cast has the models and tools of a node.
type cast struct {
	spec    *NodeSpec
	ctx     context.Context //nolint:containedctx // of the process
	convs   []recording.Conversation
	host    *session.Host
	player  *playback.Player
	ledger  *os.File
	log     *zap.Logger
	cancels sync.WaitGroup

	mu    sync.Mutex
	added map[events.SessionID]bool
}

// sessionOf names the session that plays a conversation for the n-th time.
func sessionOf(n, conversation int) events.SessionID {
	return events.SessionID(fmt.Sprintf("s%05d-%d", n, conversation))
}

// planOf is the inverse of [sessionOf]: the plan of a session's conversation.
func planOf(id events.SessionID, convs []recording.Conversation) (*playback.Plan, error) {
	_, number, _ := strings.Cut(string(id), "-")
	n, err := strconv.Atoi(number)
	if err != nil || n < 0 || n >= len(convs) {
		return nil, fmt.Errorf("session %s plays no conversation", id)
	}
	plan := playback.NewPlan(id, &convs[n])
	plan.MayLose = mayLose(plan)
	return plan, nil
}

// tools are the tools of a session. The node requests them before the model.
func (c *cast) tools(id events.SessionID) *plugin.Tools {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.added == nil {
		c.added = make(map[events.SessionID]bool)
	}
	if !c.added[id] {
		plan, err := planOf(id, c.convs)
		if err == nil {
			err = c.player.Add(plan)
		}
		if err != nil {
			c.log.Error("plan", zap.String("session", string(id)), zap.Error(err))
		}
		c.added[id] = true
	}
	return c.player.Tools(id)
}

// effectsOf declares a tool idempotent, without effects, or non-idempotent, a third of the tools each. A plan with a call
// that does more than return has no non-idempotent tools, because its conversation needs each call.
func effectsOf(plan *playback.Plan, tool string) events.Effects {
	switch {
	case plan.MayLose[tool]:
		return events.EffectsNonIdempotent
	case hash(tool)%3 == 1:
		return events.EffectsNone
	}
	return events.EffectsIdempotent
}

// mayLose are the non-idempotent tools of a plan; nil where a call of the plan injects, hangs or has no result.
func mayLose(plan *playback.Plan) map[string]bool {
	list := make(map[string]bool)
	for _, tool := range plan.Tools {
		list[tool] = hash(tool)%3 == 0
	}
	for _, t := range plan.Turns {
		for _, r := range t.Replies {
			for _, c := range r.Calls {
				if c.Hang || c.Result == nil || len(c.Inject) > 0 {
					return nil
				}
			}
		}
	}
	return list
}

func hash(text string) uint32 {
	sum := fnv.New32a()
	_, _ = sum.Write([]byte(text))
	return sum.Sum32()
}

// recordCall writes a line to the ledger, and then waits for the duration of the effect.
func (c *cast) recordCall(ctx context.Context, id events.SessionID, effect events.EffectID) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	line := entry{Session: id, Effect: effect, Worker: c.spec.Worker, At: time.Now().UnixMilli()}
	if _, err := c.ledger.WriteString(line.String()); err != nil {
		return err
	}
	took := c.spec.Think/2 + time.Duration(hash(string(id)+string(effect)))%max(c.spec.Think, 1)
	if !strings.HasSuffix(string(effect), "/model") {
		took /= 3
	}
	timer := time.NewTimer(took)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// hung cancels the turn, as the client in the recording did.
func (c *cast) hung(id events.SessionID, turn events.TurnID) {
	c.cancels.Go(func() {
		for c.ctx.Err() == nil {
			_, _, err := c.host.Cancel(c.ctx, id, turn, api.CancelRequest{ID: "abort-" + string(turn), Origin: "recording"})
			if err == nil || !errors.Is(err, events.ErrOutcomeUnknown) {
				return
			}
		}
	})
}
