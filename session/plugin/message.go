package plugin

// SetMessageSender sets the receiver of side messages of running code.
func (s *Stack) SetMessageSender(send func(text, kind string)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sender = send
}

// ClearMessageSender drops later side messages.
func (s *Stack) ClearMessageSender() { s.SetMessageSender(nil) }

// codeMessage is the kind of side messages that repeat the code itself. They are not sent.
const codeMessage = "lashlang_code"

// Message sends a side message. Without a sender it is dropped.
func (s *Stack) Message(text, kind string) {
	s.mu.Lock()
	send := s.sender
	s.mu.Unlock()
	if send != nil && kind != codeMessage {
		send(text, kind)
	}
}
