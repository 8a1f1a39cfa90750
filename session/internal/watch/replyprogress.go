package watch

import (
	"cmp"
	"math"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/turn"
)

// try identifies one attempt of one model call inside an iteration.
type try struct{ call, attempt int64 }

func tryOf(d *api.Delta) try { return try{d.Call, d.Attempt} }

// last is newer than all tries of the same call.
func (t try) last() try { return try{t.call, math.MaxInt64} }

// compare orders tries by age.
func (t try) compare(o try) int {
	return cmp.Or(cmp.Compare(t.call, o.call), cmp.Compare(t.attempt, o.attempt))
}

// replyProgress tracks, from the commits, which reply is in progress, and which of its deltas were delivered.
type replyProgress struct {
	seq       events.Seq    // of the last commit applied
	turn      events.TurnID // the running turn; empty: none
	ended     events.TurnID // the last ended turn
	iteration int64         // the first whose reply is not recorded
	try       try           // of the newest delta delivered; zero: none
	next      int64         // N of the next delta
	from      uint64        // sequence in the delta stream of the first unread delta
	printing  printing
}

func replyProgressOf(s *projector.State) replyProgress {
	now := replyProgress{seq: s.Seq}
	if t := s.Turn(); t != nil {
		now.turn, now.iteration = t.ID, t.Iteration
		if t.Replied {
			now.iteration++
		}
		for i := range t.Calls {
			if t.Calls[i].Done {
				now.printing.end(turn.ToolEffect(t.ID, t.Iteration, int64(i)))
			}
		}
	}
	return now
}

// commit applies the next commit. An earlier commit changes nothing.
func (s *replyProgress) commit(e events.Entry) {
	if e.Seq <= s.seq {
		return
	}
	s.seq = e.Seq
	for i := range e.Commit.Events {
		ev := &e.Commit.Events[i]
		switch p := ev.Payload.(type) {
		case *events.TurnStarted:
			if ev.Turn != s.turn {
				s.turn, s.iteration, s.from = ev.Turn, 0, 0
			}
			s.try, s.next = try{}, 0
		case *events.ToolReturned:
			for i := range p.Results {
				s.printing.end(turn.ToolEffect(ev.Turn, p.Iteration, p.Results[i].Call))
			}
		case *events.ToolLost:
			for _, c := range p.Calls {
				s.printing.end(turn.ToolEffect(ev.Turn, p.Iteration, c))
			}
		case *events.ToolNestedReturned:
			s.printing.end(p.Effect)
		case *events.ModelReplied:
			if ev.Turn == s.turn && p.Iteration >= s.iteration {
				s.iteration, s.try, s.next, s.printing = p.Iteration+1, try{}, 0, printing{}
			}
		case *events.TurnCompleted:
			if ev.Turn == s.turn {
				s.turn, s.ended = "", ev.Turn
			}
		}
	}
}

// verdict is the position of a delta relative to the delivered ones.
type verdict int

const (
	deltaOld   verdict = iota // delivered before, retracted, or of a recorded reply
	deltaNext                 // the next one
	deltaGap                  // some before it are missing
	deltaAhead                // of a reply whose preceding commit has not arrived
)

func (s *replyProgress) judge(d *api.Delta) verdict {
	switch {
	case d.Turn != s.turn && d.Turn == s.ended:
		return deltaOld
	case d.Turn != s.turn || d.Iteration > s.iteration:
		return deltaAhead
	case d.Iteration < s.iteration:
		return deltaOld
	}
	next := int64(0) // of a newer try
	switch tryOf(d).compare(s.try) {
	case -1:
		return deltaOld
	case 0:
		next = s.next
	}
	switch {
	case d.N < next:
		return deltaOld
	case d.N > next:
		return deltaGap
	}
	return deltaNext
}

func (s *replyProgress) delivered(d *api.Delta) { s.try, s.next = tryOf(d), d.N+1 }
