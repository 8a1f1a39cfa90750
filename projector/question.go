package projector

// Questions are the questions about calls of the running turn that wait for an
// answer, in the order in which they were asked. Arguments above the inline cap are references.
func (s *State) Questions() []Approval {
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
