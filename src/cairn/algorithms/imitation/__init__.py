"""Learning from experts: BC, DAgger, AggreVaTe and AggreVaTeD."""
