package recording

import "github.com/lash-go/lash/events"

// Stats counts what a conversation holds.
type Stats struct {
	Entries     int
	Systems     int
	Users       int
	Replies     int
	Aborted     int // replies that were cancelled
	Errored     int // replies that ended in a provider's error
	Calls       int
	Answered    int // calls with a result; the others never got one
	Results     int
	Failed      int // results, orphans included
	Orphans     int // results without a call
	Configs     int
	Compactions int
	Others      map[string]int // shell and other entries by type; never nil
}

// Stats counts the entries of c.
func (c Conversation) Stats() Stats {
	s := Stats{Entries: len(c.Entries), Others: map[string]int{}}
	for _, e := range c.Entries {
		switch e.Kind {
		case EntrySystem:
			s.Systems++
		case EntryUser:
			s.Users++
		case EntryReply:
			s.addReply(e.Reply)
		case EntryResult:
			s.addResult(e.Result)
		case EntryConfig:
			s.Configs++
		case EntryCompaction:
			s.Compactions++
		case EntryShell, EntryOther:
			s.Others[e.Type]++
		}
	}
	return s
}

func (s *Stats) addReply(r Reply) {
	s.Replies++
	if r.Stop == events.StopCancelled {
		s.Aborted++
	}
	if r.Stop == events.StopProviderError {
		s.Errored++
	}
	for _, p := range r.Parts {
		if p.Kind == events.PartToolCall {
			s.Calls++
		}
	}
}

func (s *Stats) addResult(r Result) {
	s.Results++
	if r.Failed {
		s.Failed++
	}
	if r.Orphan() {
		s.Orphans++
	} else {
		s.Answered++
	}
}
