package projector

// UnansweredApprovals are the unanswered approval requests of the running turn, in the order of the requests. Arguments above
// the inline limit are references.
func (s *State) UnansweredApprovals() []Approval {
	t := s.Turn()
	if t == nil || t.Cancelled {
		return nil
	}
	var list []Approval
	for _, a := range t.Asks {
		if !a.Answered {
			list = append(list, a)
		}
	}
	return list
}
