package session

// InlineTotal is how many bytes of bodies [Spill] leaves inside one event.
const InlineTotal = spillTotal
