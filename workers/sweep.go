package workers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/projector/follow"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/turn"
)

// SweeperConfig of a sweeper.
type SweeperConfig struct {
	Bus     *bus.Bus
	Host    *session.Host
	Every   time.Duration // between two sweeps, a fifth more or less. Defaults to 30 s
	Quiet   time.Duration // how long a session must not have moved. Defaults to twice [bus.AckWait]
	Opening time.Duration // how long a creator may take between two commits. Defaults to 5 min
	Logger  *zap.Logger   // nil is silent
}

// Sweeper finds hot sessions that owe work of which the queue has no command,
// and puts one there. The order in which workers write leaves none behind; this
// is for what a server lost, or an operator removed, or a creator that died
// left. Any number may run at once, anywhere: the same find is the same command.
//
// A sweep lists the hot sessions and the queue. It looks at a session only
// once at each of its sequences, and folds it only where its directory row
// does not say that it rests: idle sessions cost next to nothing.
type Sweeper struct {
	cfg SweeperConfig
	log *zap.Logger
	had map[events.SessionID]owing // by session, as it was found last
}

// owing is what a session owes at a sequence.
type owing struct {
	seq     events.Seq
	turn    bool     // a turn runs and is not parked, or waits, or is to branch off
	tasks   []string // live ones, by their job's id
	opening bool
}

// NewSweeper makes a sweeper.
func NewSweeper(cfg SweeperConfig) *Sweeper {
	cfg.Every = orDefault(cfg.Every, 30*time.Second)
	cfg.Quiet = orDefault(cfg.Quiet, 2*bus.AckWait)
	cfg.Opening = orDefault(cfg.Opening, 5*time.Minute)
	if cfg.Logger == nil {
		cfg.Logger = zap.NewNop()
	}
	return &Sweeper{cfg: cfg, log: cfg.Logger.Named("sweeper"), had: make(map[events.SessionID]owing)}
}

// Run sweeps at once, and then now and then until ctx ends.
func (s *Sweeper) Run(ctx context.Context) {
	for ctx.Err() == nil {
		if err := s.Sweep(ctx); err != nil && ctx.Err() == nil {
			s.log.Warn("sweep", zap.Error(err))
		}
		bus.Sleep(ctx, s.cfg.Every*4/5+rand.N(s.cfg.Every*2/5))
	}
}

// Sweep looks at every hot session. What is wrong with one keeps it from none of the others.
func (s *Sweeper) Sweep(ctx context.Context) error {
	var quiet []bus.HotSession
	had := make(map[events.SessionID]owing, len(s.had))
	for hot, err := range s.cfg.Bus.Hot(ctx) { // before the queue: what moves in between is left to the next sweep
		if err != nil {
			return err
		}
		if l, ok := s.had[hot.ID]; ok && l.seq == hot.Last {
			had[hot.ID] = l
		}
		if hot.Last > 0 && !hot.Sealed && time.Since(hot.Moved) > s.cfg.Quiet {
			quiet = append(quiet, hot)
		}
	}
	s.had = had
	turns, err := s.cfg.Bus.Backlogs(ctx, bus.ClassTurn)
	if err != nil {
		return err
	}
	tasks, err := s.cfg.Bus.Backlogs(ctx, bus.ClassTask)
	if err != nil {
		return err
	}
	calls, err := s.cfg.Bus.Backlogs(ctx, bus.ClassTool)
	if err != nil {
		return err
	}
	var errs []error
	for _, hot := range quiet {
		if err := s.sweep(ctx, hot, len(turns[hot.ID]) > 0, append(tasks[hot.ID], calls[hot.ID]...)); err != nil {
			errs = append(errs, fmt.Errorf("session %s: %w", hot.ID, err))
		}
	}
	return errors.Join(errs...)
}

// sweep puts in the queue what a session owes and the queue lacks.
func (s *Sweeper) sweep(ctx context.Context, hot bus.HotSession, covered bool, jobs []string) error {
	o, err := s.owing(ctx, hot)
	if err != nil {
		return err
	}
	log := s.log.With(zap.String("session", string(hot.ID)), zap.Uint64("seq", uint64(hot.Last)))
	if o.turn && !covered {
		log.Warn("a turn that no command covers")
		if err := s.cfg.Host.Cover(ctx, hot.ID, fmt.Sprintf("sweep-%d", hot.Last)); err != nil {
			return err
		}
	}
	if slices.ContainsFunc(o.tasks, func(id string) bool { return !slices.Contains(jobs, id) }) {
		log.Warn("a task that no job covers")
		if err := s.cfg.Host.CoverTasks(ctx, hot.ID); err != nil {
			return err
		}
	}
	if o.opening && time.Since(hot.Moved) > s.cfg.Opening {
		log.Warn("a creator that died")
		return s.cfg.Host.CloseOpening(ctx, hot.ID, hot.Last, "its creator died before all of its nodes were appended")
	}
	return nil
}

// owing is what a session owes at its end, as far as that is known.
func (s *Sweeper) owing(ctx context.Context, hot bus.HotSession) (owing, error) {
	if o, ok := s.had[hot.ID]; ok {
		return o, nil
	}
	o := owing{seq: hot.Last}
	row, err := s.cfg.Bus.Directory().Get(ctx, hot.ID)
	if err != nil {
		return o, err
	}
	var dir follow.Directory
	if json.Unmarshal(row.Value, &dir) != nil || dir.Seq != hot.Last || !dir.Rests() {
		state, err := follow.Open(ctx, s.cfg.Bus, hot.ID)
		if err != nil || state.Seq != hot.Last { // it moved meanwhile
			return owing{}, err
		}
		o.of(state)
	}
	s.had[hot.ID] = o
	return o, nil
}

func (o *owing) of(state *projector.State) {
	t := state.Turn()
	o.turn = t != nil && (!turn.Parked(state) || turn.Branching(state) != nil) || t == nil && len(state.Queue) > 0 && state.Status == projector.StatusOpen
	o.opening = state.Status == projector.StatusOpening
	for i := range state.Tasks {
		if id, owed := session.TaskJobID(&state.Tasks[i]); owed {
			o.tasks = append(o.tasks, id)
		}
	}
}
