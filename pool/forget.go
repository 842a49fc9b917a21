package pool

// Forget undoes what the API changed, of one backend or, with an empty id, of the
// whole pool, so that the file's view is in force again. It returns what it has
// undone, and wraps ErrNotFound if no backend has that id, nor has the API
// removed one of it.
func (p *Pool) Forget(id string) (undone []Difference, err error) {
	p.mu.Lock()
	defer p.unlock()
	if _, deleted := p.roster.deleted[id]; id != "" && !deleted && p.roster.byID(id) == nil {
		return nil, notFound(id)
	}
	undone = p.differencesLocked(id)
	if id == "" {
		p.strategy = p.file
	}
	for _, e := range append([]*entry(nil), p.roster.entries...) {
		if id == "" || id == e.id {
			p.forgetLocked(e)
		}
	}
	for _, e := range p.roster.past {
		if id == "" || id == e.id {
			e.absent = false
		}
	}
	for _, d := range p.roster.deletions() {
		if id == "" || id == d.Spec.ID {
			undone = append(undone, p.readmitLocked(d)...)
		}
	}
	p.publishLocked()
	return undone, nil
}

// forgetLocked gives an entry the file's values, and ends it if it has none.
func (p *Pool) forgetLocked(e *entry) {
	if !e.fromFile {
		p.leaveLocked(e, "forgotten by the API")
		return
	}
	e.become(e.spec.Weight, e.spec.MaxSessions, "the API, which forgot its own")
	e.by = ""
	p.setAdminLocked(e, Ready)
}

// readmitLocked takes back the removal of an entry of the file. What the API
// added at its address has to leave; it is returned.
func (p *Pool) readmitLocked(d Deletion) []Difference {
	displaced := differences{pool: p.name}
	if e := p.roster.byAddress(d.Spec.Address); e != nil {
		displaced.entry(e)
		p.leaveLocked(e, "the file has its address; its removal was forgotten by the API")
	}
	delete(p.roster.deleted, d.Spec.ID)
	p.enterLocked(d.Spec, true, "its removal was forgotten by the API")
	return displaced.list
}
